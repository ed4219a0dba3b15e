/* SPDX-License-Identifier: BSD-3-Clause */
/* See plugstack.h. A `required` plugin that fails drains nodes (slurm.md F8); one of another Slurm release is not
 * loaded at all. */
#include "config.h"

#include "common/conf/plugstack.h"

#include <elf.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file/slurp.h"

#define ELF_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define PLUGIN_MAX (64u << 20) /* read whole; ours with symbols is below 1 MiB */

enum { MAX_DEPTH = 8 };

static void read_file(const char *path, int depth, struct dp_plugstack *f);

/* "include PATTERN", relative to the folder of the file that says it. */
static void read_include(const char *from, const char *pattern, int depth, struct dp_plugstack *f)
{
    const char *slash = strrchr(from, '/');
    char full[1024];
    glob_t g;

    if (*pattern == '/' || !slash)
        snprintf(full, sizeof full, "%s", pattern);
    else
        snprintf(full, sizeof full, "%.*s/%s", (int)(slash - from), from, pattern);
    if (glob(full, 0, NULL, &g) != 0)
        return;
    for (size_t i = 0; i < g.gl_pathc; i++)
        read_file(g.gl_pathv[i], depth + 1, f);
    globfree(&g);
}

static void read_line(const char *path, unsigned number, char *line, int depth, struct dp_plugstack *f)
{
    char *rest = line, *word, *plugin;

    line[strcspn(line, "#\n")] = '\0';
    while ((word = strsep(&rest, " \t")) && !*word)
        ;
    while ((plugin = strsep(&rest, " \t")) && !*plugin)
        ;
    if (!word || !plugin)
        return;
    if (!strcmp(word, "include")) {
        read_include(path, plugin, depth, f);
    } else if (strstr(plugin, "spank_dynpipe") && !f->is_found) {
        f->is_found = true;
        f->is_required = !strcmp(word, "required");
        f->line = number;
        snprintf(f->file, sizeof f->file, "%s", path);
        snprintf(f->plugin, sizeof f->plugin, "%s", plugin);
        while ((word = strsep(&rest, " \t")) && f->n_args < 16) {
            if (*word)
                f->args[f->n_args++] = strdup(word);
        }
    }
}

static void read_file(const char *path, int depth, struct dp_plugstack *f)
{
    FILE *file = depth < MAX_DEPTH ? fopen(path, "re") : NULL;
    char *line = NULL;
    size_t cap = 0;

    if (!file) {
        snprintf(f->unreadable, sizeof f->unreadable, "%.500s: %s", path, strerror(errno));
        return;
    }
    for (unsigned n = 1; getline(&line, &cap, file) >= 0; n++)
        read_line(path, n, line, depth, f);
    free(line);
    fclose(file);
}

void dp_plugstack_read(const char *path, struct dp_plugstack *out)
{
    memset(out, 0, sizeof *out);
    read_file(path, 0, out);
}

void dp_plugstack_release(struct dp_plugstack *p)
{
    for (int i = 0; i < p->n_args; i++)
        free(p->args[i]);
    p->n_args = 0;
}

void dp_plugstack_find_plugin(const struct dp_plugstack *p, const char *folders, char *out, size_t cap)
{
    snprintf(out, cap, "%s", p->plugin);
    for (const char *f = folders; *p->plugin != '/' && *f;) {
        size_t n = strcspn(f, ":");

        snprintf(out, cap, "%.*s/%s", (int)n, f, p->plugin);
        if (access(out, F_OK) == 0)
            return;
        f += n + (f[n] == ':');
    }
}

void dp_plugstack_socket(const struct dp_plugstack *p, const char *node, char *out, size_t cap)
{
    const char *pattern = "/run/dynpipe/%n.sock", *at;
    size_t used = 0;

    for (int i = 0; i < p->n_args; i++)
        if (!strncmp(p->args[i], "socket=", 7))
            pattern = p->args[i] + 7;
    out[0] = '\0';
    for (; (at = strstr(pattern, "%n")) && used < cap; pattern = at + 2)
        used += (size_t)snprintf(out + used, cap - used, "%.*s%s", (int)(at - pattern), pattern, node);
    if (used < cap)
        snprintf(out + used, cap - used, "%s", pattern);
}

/* ---- the plugin's file ---- */

struct elf {
    const char *bytes;
    size_t n;
};

/* n bytes at an offset of the file. returns false where it has not so many. */
static bool copy(const struct elf *e, uint64_t offset, void *out, size_t n)
{
    if (offset > e->n || n > e->n - offset)
        return false;
    memcpy(out, e->bytes + offset, n);
    return true;
}

/* What the loader puts at an address of the image. */
static bool copy_address(const struct elf *e, const ElfW(Ehdr) *head, uint64_t address, void *out, size_t n)
{
    ElfW(Phdr) p;

    for (unsigned i = 0; i < head->e_phnum && copy(e, head->e_phoff + (uint64_t)i * sizeof p, &p, sizeof p); i++)
        if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
            return copy(e, p.p_offset + (address - p.p_vaddr), out, n);
    return false;
}

static bool is_name(const struct elf *e, uint64_t offset, const char *name)
{
    char text[64];
    size_t n = strlen(name) + 1;

    return n <= sizeof text && copy(e, offset, text, n) && !memcmp(text, name, n);
}

/* The first n bytes of an exported object. returns false where there is none. */
static bool copy_object(const struct elf *e, const ElfW(Ehdr) *head, const char *name, void *out, size_t n)
{
    ElfW(Shdr) s, names;
    ElfW(Sym) y;

    for (unsigned i = 0; i < head->e_shnum && copy(e, head->e_shoff + (uint64_t)i * sizeof s, &s, sizeof s); i++) {
        if (s.sh_type != SHT_DYNSYM || !copy(e, head->e_shoff + (uint64_t)s.sh_link * sizeof s, &names, sizeof names))
            continue;
        for (uint64_t k = 0; k < s.sh_size / sizeof y && copy(e, s.sh_offset + k * sizeof y, &y, sizeof y); k++)
            if (y.st_shndx != SHN_UNDEF && is_name(e, names.sh_offset + y.st_name, name))
                return copy_address(e, head, y.st_value, out, n);
    }
    return false;
}

/* Read, not loaded: it refers to functions that only Slurm's programs have, and its code would run. */
int dp_plugin_version(const char *path, uint32_t *version, struct dp_err *err)
{
    struct elf e = {0};
    char *text = NULL, type;
    ElfW(Ehdr) head;
    int rc = -1;

    if (dp_slurp(path, PLUGIN_MAX, &text, &e.n, err) < 0)
        return -1;
    e.bytes = text;
    if (!copy(&e, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELF_CLASS)
        dp_err_set(err, DP_EINVAL, "not a shared object for this machine");
    else if (!copy_object(&e, &head, "plugin_version", version, sizeof *version) ||
             !copy_object(&e, &head, "plugin_type", &type, 1))
        dp_err_set(err, DP_EINVAL, "not a SPANK plugin");
    else
        rc = 0;
    free(text);
    return rc;
}
