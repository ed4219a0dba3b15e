/* SPDX-License-Identifier: BSD-3-Clause */
/* resources [--update] "ARCH..." TABLE OBJECT...: what the compiler made of every kernel, against a table. TAP.
 *
 * The objects are those of .cu files, as the build has them; the machine code for each kind of card lies in them as an ELF
 * file of its own. Nothing is compiled, run or loaded, and no card is needed. Every object has code for every ARCH ("80 90a",
 * as ./configure has them), and a kernel
 *     has no stack frame, so spills no register, and neither loads nor stores local memory;
 *     has a row in the table for each kind of card that there is code for, and each such row has a kernel;
 *     takes no more registers and shared memory than its row says, has no fewer blocks at a time on a multiprocessor
 *     (by NVIDIA's own calculation), and no fewer instructions that copy to shared memory on their own, load fragments of
 *     matrices, or multiply them.
 * What is better than its row is said and passes. --update writes the table anew, and keeps its first lines and the column
 * `dynamic`, which no object knows: bytes of shared memory that the kernel is launched with.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_occupancy.h>

#define MOST_ROWS 4096   /* of the table, and of what is found */
#define MOST_NAME 160    /* of a file and of a kernel, their 0 among it */
#define MOST_SECTIONS 4096 /* of a file of machine code */
#define MOST_ARCH 256      /* a byte */
#define INSTRUCTION 16   /* bytes, since compute capability 7.0 */

/* The table's columns, in order. */
enum column { THREADS, REGISTERS, SHARED, DYNAMIC, BLOCKS, COPIES, LDMATRIX, MMA, N_COLUMNS };
static const struct {
    const char *name;
    int better; /* 1: more is, -1: less is, 0: neither */
    bool is_of_version; /* another release of nvcc may well make something else of it */
} columns[N_COLUMNS] = {
    {"threads", 0, false}, {"registers", -1, true}, {"shared", -1, false}, {"dynamic", 0, false},
    {"blocks", 1, true},   {"copies", 1, true},     {"ldmatrix", 1, true}, {"mma", 1, true},
};

struct row {
    char file[MOST_NAME], kernel[MOST_NAME];
    int arch;
    long value[N_COLUMNS];
    /* of a kernel */
    long frame, local; /* bytes on the stack; loads and stores of local memory */
    bool reads_shared; /* or writes */
    /* of the table */
    bool is_met;
};
static struct row rows[MOST_ROWS], found[MOST_ROWS];
static int n_rows, n_found, tests, failed;
static char table_version[32], version[32]; /* of nvcc; "" */

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    printf("Bail out! ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    exit(1);
}

static void result(bool is_ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void result(bool is_ok, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    printf("%s %d - ", is_ok ? "ok" : "not ok", ++tests);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    failed += !is_ok;
}

/* --- the table --- */

static void read_table(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[512];

    if (!f && errno == ENOENT)
        return; /* an empty one */
    if (!f)
        die("%s: %s", path, strerror(errno));
    for (int at = 1; fgets(line, sizeof line, f); at++) {
        struct row *r = &rows[n_rows];

        if (sscanf(line, "# nvcc %31s", table_version) == 1 || line[0] == '#' || line[0] == '\n')
            continue;
        if (n_rows == MOST_ROWS)
            die("%s: more than %d rows", path, MOST_ROWS);
        if (sscanf(line, "%159s %159s %d %ld %ld %ld %ld %ld %ld %ld %ld", r->file, r->kernel, &r->arch, &r->value[THREADS],
                   &r->value[REGISTERS], &r->value[SHARED], &r->value[DYNAMIC], &r->value[BLOCKS], &r->value[COPIES],
                   &r->value[LDMATRIX], &r->value[MMA]) != 3 + N_COLUMNS)
            die("%s:%d: no row of %d columns", path, at, 3 + N_COLUMNS);
        n_rows++;
    }
    fclose(f);
}

static struct row *row_of(const struct row *k, bool any_arch)
{
    for (int i = 0; i < n_rows; i++)
        if (!strcmp(rows[i].file, k->file) && !strcmp(rows[i].kernel, k->kernel) && (any_arch || rows[i].arch == k->arch))
            return &rows[i];
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int c = strcmp(x->file, y->file);

    c = c ? c : strcmp(x->kernel, y->kernel);
    return c ? c : (x->arch > y->arch) - (x->arch < y->arch);
}

static void write_table(const char *path)
{
    static char head[1 << 14];
    size_t n = 0;
    FILE *f = fopen(path, "r");
    int wide = 0;

    for (int c; f && n < sizeof head - 1 && (c = getc(f)) == '#';)
        for (head[n++] = '#'; n < sizeof head - 1 && (c = getc(f)) != EOF; n++)
            if ((head[n] = (char)c) == '\n') {
                n++;
                break;
            }
    if (f)
        fclose(f);
    for (int i = 0; i < n_found; i++)
        wide = (int)strlen(found[i].kernel) > wide ? (int)strlen(found[i].kernel) : wide;
    f = fopen(path, "w");
    if (!f)
        die("%s: %s", path, strerror(errno));
    for (const char *line = head; *line; line += strcspn(line, "\n") + 1)
        if (strncmp(line, "# nvcc ", 7) && strncmp(line, "# file ", 7))
            fprintf(f, "%.*s\n", (int)strcspn(line, "\n"), line);
    fprintf(f, "# nvcc %s\n# %-12s %-*s arch", version, "file", wide, "kernel");
    for (int c = 0; c < N_COLUMNS; c++)
        fprintf(f, " %s", columns[c].name);
    fprintf(f, "\n");
    for (int i = 0; i < n_found; i++) {
        fprintf(f, "%-14s %-*s %4d", found[i].file, wide, found[i].kernel, found[i].arch);
        for (int c = 0; c < N_COLUMNS; c++)
            fprintf(f, " %*ld", (int)strlen(columns[c].name), found[i].value[c]);
        fprintf(f, "\n");
    }
    if (fclose(f))
        die("%s: %s", path, strerror(errno));
}

/* --- machine code --- */

/* A file of machine code within an object. */
struct elf {
    const char *file; /* for messages, and the first column */
    const unsigned char *p;
    size_t n;
    struct section {
        const char *name;
        uint64_t at, size;
        uint32_t type, link;
    } sections[MOST_SECTIONS];
    int n_sections, arch;
};

static const unsigned char *at(const struct elf *e, uint64_t from, uint64_t n)
{
    if (from > e->n || n > e->n - from)
        die("%s: %llu bytes at %llu of machine code are not there", e->file, (unsigned long long)n, (unsigned long long)from);
    return e->p + from;
}

static uint64_t number(const struct elf *e, uint64_t from, int bytes)
{
    const unsigned char *p = at(e, from, (uint64_t)bytes);
    uint64_t x = 0;

    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

static const char *text(const struct elf *e, uint64_t from)
{
    const char *s = (const char *)at(e, from, 1);

    if (!memchr(s, 0, e->n - from))
        die("%s: a name without an end", e->file);
    return s;
}

static const struct section *find_section(const struct elf *e, const char *before, const char *name)
{
    const size_t n = strlen(before);

    for (int i = 0; i < e->n_sections; i++)
        if (!strncmp(e->sections[i].name, before, n) && !strcmp(e->sections[i].name + n, name))
            return &e->sections[i];
    return NULL;
}

/* ELF with 64 bits, little-endian. returns: bytes to the end of its last part, or 0: it is none of a card's. */
static size_t open_elf(struct elf *e, const char *file, const unsigned char *p, size_t n)
{
    static const unsigned char magic[6] = {0x7f, 'E', 'L', 'F', 2, 1};
    uint64_t from, names, end;
    int size;

    e->file = file, e->p = p, e->n = n;
    if (n < 64 || memcmp(p, magic, sizeof magic) || number(e, 18, 2) != 190) /* EM_CUDA */
        return 0;
    /* EI_ABIVERSION 8 (CUDA 13) keeps the compute capability in the second byte of e_flags, 7 in the first one */
    e->arch = (int)number(e, p[8] >= 8 ? 49 : 48, 1);
    from = number(e, 40, 8), size = (int)number(e, 58, 2), e->n_sections = (int)number(e, 60, 2);
    if (size != 64 || e->n_sections > MOST_SECTIONS || number(e, 62, 2) >= (uint64_t)e->n_sections)
        die("%s: %d sections of %d bytes", file, e->n_sections, size);
    names = number(e, from + 64 * number(e, 62, 2) + 24, 8);
    end = from + 64 * (uint64_t)e->n_sections;
    for (int i = 0; i < e->n_sections; i++, from += 64) {
        struct section *s = &e->sections[i];

        s->name = text(e, names + number(e, from, 4));
        s->type = (uint32_t)number(e, from + 4, 4), s->link = (uint32_t)number(e, from + 40, 4);
        s->at = number(e, from + 24, 8), s->size = number(e, from + 32, 8);
        if (s->type == 8) /* SHT_NOBITS: shared memory is in no file */
            continue;
        at(e, s->at, s->size);
        end = s->at + s->size > end ? s->at + s->size : end;
    }
    return (size_t)end;
}

/* "_Z14product_kernelILi64ELb1EEvl..." is product_kernel<64,1>: the name, and numbers among what a template was given;
 * anything else of it stays as the compiler spells it. */
static void spell(char to[MOST_NAME], const char *mangled)
{
    const char *p = mangled + (strncmp(mangled, "_Z", 2) ? 0 : 2);
    char *end;
    long n;
    int used;

    p += *p == 'L';
    n = strtol(p, &end, 10);
    if (p == mangled || n <= 0 || n >= MOST_NAME / 2 || (size_t)n > strlen(end)) {
        snprintf(to, MOST_NAME, "%s", mangled);
        return;
    }
    used = snprintf(to, MOST_NAME, "%.*s", (int)n, end);
    p = end + n;
    if (*p++ != 'I')
        return;
    for (char sign = '<'; *p && *p != 'E'; sign = ',') {
        const char *to_end = strchr(p, 'E');

        if (*p == 'L' && to_end) { /* L, a letter for the type, the number, E */
            used += snprintf(to + used, (size_t)(MOST_NAME - used), "%c%.*s", sign, (int)(to_end - p - 2), p + 2);
            p = to_end + 1;
        } else if (*p >= '0' && *p <= '9' && (n = strtol(p, &end, 10)) > 0 && (size_t)n <= strlen(end)) {
            used += snprintf(to + used, (size_t)(MOST_NAME - used), "%c%.*s", sign, (int)n, end);
            p = end + n;
        } else {
            used += snprintf(to + used, (size_t)(MOST_NAME - used), "%c%c", sign, *p++);
        }
        if (used >= MOST_NAME - 2)
            die("a kernel's name is too long: %s", mangled);
    }
    snprintf(to + used, (size_t)(MOST_NAME - used), ">");
}

/* What .nv.info says of symbol `symbol`, or, without one, of a kernel in its own section: `attribute`'s second word, or
 * its first three multiplied. -1: nothing. */
static long info_of(const struct elf *e, const struct section *s, int attribute, int64_t symbol)
{
    for (uint64_t i = 0; s && i + 4 <= s->size;) {
        const int format = (int)number(e, s->at + i, 1), what = (int)number(e, s->at + i + 1, 1);
        const uint64_t bytes = number(e, s->at + i + 2, 2), from = s->at + i + 4;

        i += 4;
        if (format != 4) /* EIFMT_SVAL: `bytes` of it follow; the others are a value of at most two bytes */
            continue;
        i += bytes;
        if (what != attribute)
            continue;
        if (symbol < 0)
            return (long)(number(e, from, 4) * number(e, from + 4, 4) * number(e, from + 8, 4));
        if (number(e, from, 4) == (uint64_t)symbol)
            return (long)number(e, from + 4, 4);
    }
    return -1;
}

/* The low 12 bits of an instruction are what it does and what kinds of operands it has; cuobjdump is not everywhere. */
static void count_instructions(const struct elf *e, const struct section *code, struct row *k)
{
    for (uint64_t i = 0; i + INSTRUCTION <= code->size; i += INSTRUCTION)
        switch (number(e, code->at + i, 2) & 0xfff) {
        case 0x983: /* LDL */
        case 0x387: /* STL */
            k->local++;
            break;
        case 0xfae: /* LDGSTS: cp.async */
            k->value[COPIES]++;
            k->reads_shared = true;
            break;
        case 0x83b: /* LDSM */
            k->value[LDMATRIX]++;
            k->reads_shared = true;
            break;
        case 0x984: /* LDS */
        case 0x388: /* STS */
            k->reads_shared = true;
            break;
        case 0x23c: /* HMMA */
        case 0x9f0: /* HGMMA: wgmma */
            k->value[MMA]++;
            break;
        }
}

/* Blocks of the kernel at a time on a multiprocessor, by NVIDIA's header and the limits of the kind of card, which are in
 * the table "Technical Specifications per Compute Capability" of the CUDA programming guide. */
static long blocks_of(const struct row *k)
{
    static const struct {
        int arch, multiprocessors, threads, shared, block_shared;
    } cards[] = {
        {80, 108, 2048, 164 << 10, 163 << 10},
        {90, 132, 2048, 228 << 10, 227 << 10},
        {100, 148, 2048, 228 << 10, 227 << 10},
        {120, 170, 1536, 100 << 10, 99 << 10},
    };
    struct cudaOccDeviceState state = {.cacheConfig = CACHE_PREFER_NONE, .carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};

    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        struct cudaOccDeviceProp p = {
            .computeMajor = k->arch / 10, .computeMinor = k->arch % 10, .maxThreadsPerBlock = 1024,
            .maxThreadsPerMultiprocessor = cards[i].threads, .regsPerBlock = 65536, .regsPerMultiprocessor = 65536,
            .warpSize = 32, .sharedMemPerBlock = 48 << 10, .sharedMemPerMultiprocessor = (size_t)cards[i].shared,
            .numSms = cards[i].multiprocessors, .sharedMemPerBlockOptin = (size_t)cards[i].block_shared,
            .reservedSharedMemPerBlock = 1024,
        };
        struct cudaOccFuncAttributes a = {
            .maxThreadsPerBlock = (int)k->value[THREADS], .numRegs = (int)k->value[REGISTERS],
            .sharedSizeBytes = (size_t)k->value[SHARED], .partitionedGCConfig = PARTITIONED_GC_OFF,
            .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, .maxDynamicSharedSizeBytes = (size_t)cards[i].block_shared,
            .numBlockBarriers = 1,
        };
        struct cudaOccResult r;

        if (cards[i].arch != k->arch)
            continue;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &state, (int)k->value[THREADS], (size_t)k->value[DYNAMIC]) !=
            CUDA_OCC_SUCCESS)
            return 0;
        return r.activeBlocksPerMultiprocessor;
    }
    die("%s: %s for sm_%d: what such a card has is not known here", k->file, k->kernel, k->arch);
}

static void add_kernel(const struct elf *e, const char *name, int64_t symbol, const struct section *code)
{
    const struct section *info = find_section(e, ".nv.info", ""), *own = find_section(e, ".nv.info.", name);
    const struct section *shared = find_section(e, ".nv.shared.", name);
    struct row *k = &found[n_found], *old;

    if (n_found++ == MOST_ROWS)
        die("more than %d kernels", MOST_ROWS);
    snprintf(k->file, sizeof k->file, "%s", e->file);
    spell(k->kernel, name);
    k->arch = e->arch;
    k->frame = info_of(e, info, 0x11, symbol); /* EIATTR_FRAME_SIZE */
    k->value[REGISTERS] = info_of(e, info, 0x2f, symbol); /* EIATTR_REGCOUNT */
    k->value[THREADS] = info_of(e, own, 0x05, -1); /* EIATTR_MAX_THREADS: of __launch_bounds__ */
    if (k->frame < 0 || k->value[REGISTERS] < 0)
        die("%s: %s for sm_%d: the compiler does not say its registers and frame", k->file, k->kernel, k->arch);
    k->value[SHARED] = shared ? (long)shared->size : 0;
    if (k->arch >= 90 && k->value[SHARED] >= 1024)
        k->value[SHARED] -= 1024; /* what cards from here on keep of each block is in it */
    old = row_of(k, false);
    old = old ? old : row_of(k, true);
    k->value[DYNAMIC] = old ? old->value[DYNAMIC] : 0;
    count_instructions(e, code, k);
    k->value[BLOCKS] = k->value[THREADS] > 0 ? blocks_of(k) : 0;
}

static void add_elf(const struct elf *e)
{
    for (int i = 0; i < e->n_sections; i++) {
        const struct section *symbols = &e->sections[i], *names;

        if (!strcmp(symbols->name, ".note.nv.tkinfo"))
            for (uint64_t at_text = 0; at_text + 16 < symbols->size; at_text++)
                if (!memcmp(at(e, symbols->at + at_text, 8), "release ", 8))
                    sscanf((const char *)at(e, symbols->at + at_text, 16), "release %7[0-9.]", version);
        if (symbols->type != 2 || symbols->link >= (uint32_t)e->n_sections) /* SHT_SYMTAB */
            continue;
        names = &e->sections[symbols->link];
        for (uint64_t s = 0; s < symbols->size / 24; s++) {
            const uint64_t from = symbols->at + 24 * s;
            const char *name = text(e, names->at + number(e, from, 4));
            const struct section *code = find_section(e, ".text.", name);

            if ((number(e, from + 4, 1) & 0xf) == 2 && code) /* STT_FUNC; what a kernel calls has no section of its own */
                add_kernel(e, name, (int64_t)s, code);
        }
    }
}

/* archs: what it must have code for */
static void read_object(const char *path, const char *archs)
{
    static struct elf e;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *file = strndup(base, strcspn(base, "."));
    FILE *f = fopen(path, "rb");
    unsigned char *p;
    bool has[MOST_ARCH] = {false};
    long n;

    if (!f || !file || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
        die("%s: %s", path, strerror(errno));
    p = malloc((size_t)n + 1);
    if (!p || fread(p, 1, (size_t)n, f) != (size_t)n)
        die("%s cannot be read", path);
    fclose(f);
    for (size_t i = 0; i < (size_t)n; i += 8) { /* where the assembler puts them */
        const size_t bytes = open_elf(&e, file, p + i, (size_t)n - i);

        if (!bytes)
            continue;
        add_elf(&e);
        has[e.arch] = true;
        i += bytes / 8 * 8 > 8 ? bytes / 8 * 8 - 8 : 0;
    }
    free(p);
    free(file);
    for (archs += strspn(archs, " "); *archs; archs += strcspn(archs, " "), archs += strspn(archs, " ")) {
        const long arch = strtol(archs, NULL, 10);

        if (arch <= 0 || arch >= MOST_ARCH || !has[arch])
            die("%s: no machine code for sm_%ld that can be read here; was it compressed?", path, arch);
    }
}

/* --- the comparison --- */

static bool has_arch(int arch)
{
    for (int i = 0; i < n_found; i++)
        if (found[i].arch == arch)
            return true;
    return false;
}

/* What there is to say of a kernel, with its row or without; --update does away with all but faults. */
static int faults_of(const struct row *k)
{
    int faults = 0;

    if (k->frame > 0 || k->local > 0)
        faults++, printf("# %s: %s, sm_%d: a stack frame of %ld bytes, %ld loads and stores of local memory\n", k->file,
                         k->kernel, k->arch, k->frame, k->local);
    if (k->value[THREADS] <= 0)
        faults++, printf("# %s: %s, sm_%d: no __launch_bounds__\n", k->file, k->kernel, k->arch);
    else if (k->value[BLOCKS] <= 0)
        faults++, printf("# %s: %s, sm_%d: no block of it fits\n", k->file, k->kernel, k->arch);
    if (k->reads_shared && !k->value[SHARED] && !k->value[DYNAMIC])
        faults++, printf("# %s: %s, sm_%d: it has dynamic shared memory: write into the table how much, and update it again\n",
                         k->file, k->kernel, k->arch);
    return faults;
}

static int compare(const struct row *k, bool is_same_version)
{
    struct row *r = row_of(k, false);
    int worse = 0, better = 0;

    if (!r) {
        printf("# %s: %s, sm_%d: the table has no such row\n", k->file, k->kernel, k->arch);
        return 1;
    }
    r->is_met = true;
    for (int c = 0; c < N_COLUMNS; c++) {
        const long more = k->value[c] - r->value[c];
        bool is_worse = columns[c].better ? more * columns[c].better < 0 : more != 0;

        if (!more)
            continue;
        /* another release: an instruction that is wanted may be there more or less often, but not at all is worse */
        if (!is_same_version && columns[c].is_of_version && !(is_worse && c >= COPIES && !k->value[c]))
            continue;
        worse += is_worse, better += !is_worse;
        printf("# %s: %s, sm_%d: %s %ld, the table has %ld: %s\n", k->file, k->kernel, k->arch, columns[c].name, k->value[c],
               r->value[c], is_worse ? "worse" : "better; make kernel-table");
    }
    return worse;
}

int main(int argc, char **argv)
{
    const bool updates = argc > 1 && !strcmp(argv[1], "--update");
    const int table = updates ? 3 : 2;
    bool is_same_version;
    int missing = 0;

    if (argc <= table + 1) {
        fprintf(stderr, "usage: resources [--update] ARCHS TABLE OBJECT...\n");
        return 2;
    }
    read_table(argv[table]);
    for (int i = table + 1; i < argc; i++)
        read_object(argv[i], argv[table - 1]);
    qsort(found, (size_t)n_found, sizeof found[0], by_name);
    is_same_version = !strcmp(version, table_version);
    if (updates)
        write_table(argv[table]);
    for (int i = 0; i < n_found;) {
        const char *file = found[i].file;
        int faults = 0, from = i;

        for (; i < n_found && !strcmp(found[i].file, file); i++) {
            faults += faults_of(&found[i]);
            if (!updates)
                faults += compare(&found[i], is_same_version);
        }
        result(!faults, "%s: %d kernels", file, i - from);
    }
    for (int i = 0; i < n_rows && !updates; i++)
        if (!rows[i].is_met && has_arch(rows[i].arch)) {
            missing++;
            printf("# %s: %s, sm_%d: a row without a kernel\n", rows[i].file, rows[i].kernel, rows[i].arch);
        }
    if (!updates)
        result(!missing, "every row has its kernel");
    if (is_same_version || updates)
        result(true, "the table is of nvcc %s", version);
    else
        printf("ok %d - registers, blocks and instructions # SKIP the table is of nvcc %s, the objects of %s\n", ++tests,
               table_version, version);
    printf("1..%d\n", tests);
    return failed ? 1 : 0;
}
