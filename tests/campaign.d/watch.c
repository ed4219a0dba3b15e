/* SPDX-License-Identifier: BSD-3-Clause */
/* The witness of a fault campaign: looks at a private Slurm from outside, shares no code with DynPipe and asks nobody.
 *
 *   watch DIR OUT JOB [slices]   until SIGTERM; DIR: the cluster's folder, OUT: where the evidence goes, JOB: the run
 *
 * Of a run of slices each job named RUN_NAME is one, and places are GPUs: slurmctld says with DebugFlags=Gres which one a job
 * gets, and a job of another partition than OWN_PARTITION is another one.
 *
 * Again and again, in this order, which is what makes "told before it was journalled" visible without a clock:
 *   1. what was told: new lines of the run's losses (epochs), of the daemons' logs, of slurmctld's log
 *   2. the journals, which are copied whole to OUT/journals, each file (inode) by itself, as long as it changes
 *   3. whatever 1 showed must stand in 2, else: violation
 * When slurmctld's log says that a node leaves the run or goes to another job, /proc is searched for processes of the
 * run there, and again every 50 ms as long as the run does not have the node.
 *
 * OUT/events has a line for each thing seen, flushed at once: "SECONDS KIND ...". Kinds: record, epoch, left, given,
 * taken, saving, resumed, regrouped, violation, end. A place is n2, or n2.1: GPU 1 of n2.
 *
 * Where the run says that it resumed, or regrouped and no step is lost ("kept") or one is ("back"), the kernel has said by then (inotify)
 * how often a layer of a checkpoint was read since it said so before: "regrouped kept 57 reads=0".
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_NODES 64       /* of a private Slurm on one machine; it has 3 to 6 */
#define MAX_JOURNALS 1024  /* files that there were in one run: each write anew makes one */
#define MAX_MARKS 4096     /* records of a kind that are remembered */
#define MAX_LOGS 80        /* one of each daemon, slurmctld's, the run's */
#define FILE_MAX (17u << 20) /* no journal is larger than 16 MiB */
#define TURN_NS 3000000    /* between two looks */
#define LOOK_NS 50000000u  /* between two searches of /proc for what comes back */
#define MAGIC 8u           /* bytes before the first record */
#define HEAD 17u           /* len, crc, seq, type */
#define RUN_NAME "train"   /* of slices */
#define OWN_PARTITION "main"
#define GPUS 8u            /* of a node at most: place 8 x NODE + GPU */
#define SLICES_LOOK_NS 400000000u /* there are more places, and each search takes some ms */

static const char *dir, *out;
static unsigned job;
static bool is_sliced;
static FILE *events;
static volatile sig_atomic_t is_over;
static unsigned n_violations, n_looks;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
    uint64_t t = now_ns();
    va_list ap;

    fprintf(events, "%llu.%03u ", (unsigned long long)(t / 1000000000u), (unsigned)(t / 1000000u % 1000u));
    va_start(ap, fmt);
    vfprintf(events, fmt, ap);
    va_end(ap);
    fputc('\n', events);
    fflush(events);
    if (!strncmp(fmt, "violation", 9))
        n_violations++;
}

/* ---- places: nodes n1, n2, ..., or GPUs of them ---------------------------------------------------------------------- */

static struct {
    bool is_held;   /* of slices: the run had it last */
    bool is_new;    /* was given away since it was searched */
    bool is_away;   /* left the run, or went to another job: nothing of the run may be there */
    bool is_accused;
    bool is_by_hand; /* its owner took it out: Slurm kills what runs there afterwards, and fences nothing */
    unsigned alive;  /* processes there when it left */
    char who[400];   /* one of them, and of which jobs they are */
    uint64_t looked_ns;
} node[MAX_NODES];

static bool env_has(const char *env, size_t bytes, const char *line)
{
    size_t n = strlen(line) + 1;

    for (size_t i = 0; i + n <= bytes;) {
        if (!memcmp(env + i, line, n))
            return true;
        i += strnlen(env + i, bytes - i) + 1;
    }
    return false;
}

static const char *place(unsigned n)
{
    static char name[2][24];
    static unsigned turn;

    turn ^= 1;
    if (is_sliced)
        snprintf(name[turn], sizeof name[0], "n%u.%u", n / GPUS, n % GPUS);
    else
        snprintf(name[turn], sizeof name[0], "n%u", n);
    return name[turn];
}

/* Which life of its job a process is of. */
static unsigned life_of(const char *env, size_t bytes)
{
    static const char key[] = "SLURM_RESTART_COUNT=";

    for (size_t i = 0; i < bytes; i += strnlen(env + i, bytes - i) + 1)
        if (!strncmp(env + i, key, sizeof key - 1))
            return (unsigned)strtoul(env + i + sizeof key - 1, NULL, 10);
    return 0;
}

/* Which job a process is of; 0: of none. */
static unsigned job_of(const char *env, size_t bytes)
{
    static const char key[] = "SLURM_JOB_ID=";

    for (size_t i = 0; i < bytes; i += strnlen(env + i, bytes - i) + 1)
        if (!strncmp(env + i, key, sizeof key - 1))
            return (unsigned)strtoul(env + i + sizeof key - 1, NULL, 10);
    return 0;
}

/* Processes that have these lines in their environment. One that has ended, also one that nobody has waited for, has none.
 * who: "PID EXE, of JOB.LIFE ...", the first one, and all jobs of which there are some.
 */
static unsigned alive_with(const char want[3][64], int life, char *who, size_t cap)
{
    char want_conf[300], path[64], of[32], jobs[128] = " ";
    static char env[1 << 18];
    unsigned found = 0;
    struct dirent *e;
    DIR *proc = opendir("/proc");

    snprintf(want_conf, sizeof want_conf, "SLURM_CONF=%s/etc/slurm.conf", dir);
    n_looks++;
    while (proc && (e = readdir(proc))) {
        size_t got = 0;
        ssize_t k;
        int fd;

        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%.20s/environ", e->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        while (got + 1 < sizeof env && (k = read(fd, env + got, sizeof env - 1 - got)) > 0)
            got += (size_t)k;
        close(fd);
        env[got] = '\0';
        if (!got || !env_has(env, got, want[0]) || !env_has(env, got, want[1]) || (want[2][0] && !env_has(env, got, want[2])) ||
            !env_has(env, got, want_conf) || (life >= 0 && life_of(env, got) != (unsigned)life))
            continue;
        snprintf(of, sizeof of, " %u.%u ", job_of(env, got), life_of(env, got));
        if (!strstr(jobs, of))
            snprintf(jobs + strlen(jobs), sizeof jobs - strlen(jobs), "%s", strlen(jobs) + strlen(of) < sizeof jobs ? of + 1 : "more");
        if (!found++) {
            snprintf(path, sizeof path, "/proc/%.20s/exe", e->d_name);
            k = readlink(path, env, 200);
            env[k > 0 ? k : 0] = '\0';
            snprintf(who, cap, "pid %.20s %.200s", e->d_name, env);
        }
    }
    if (proc)
        closedir(proc);
    if (found)
        snprintf(who + strlen(who), cap - strlen(who), ", of%.*s", (int)strlen(jobs) - (jobs[strlen(jobs) - 1] == ' '), jobs);
    return found;
}

/* Processes of the run at a place. */
static unsigned alive_on(unsigned n, char *who, size_t cap)
{
    char want[3][64] = {""};

    if (is_sliced) {
        snprintf(want[0], sizeof want[0], "SLURM_JOB_NAME=%s", RUN_NAME);
        snprintf(want[1], sizeof want[1], "SLURMD_NODENAME=n%u", n / GPUS);
        snprintf(want[2], sizeof want[2], "SLURM_JOB_GPUS=%u", n % GPUS);
    } else {
        snprintf(want[0], sizeof want[0], "SLURM_JOB_ID=%u", job);
        snprintf(want[1], sizeof want[1], "SLURMD_NODENAME=n%u", n);
    }
    return alive_with(want, -1, who, cap);
}

/* ---- journals -------------------------------------------------------------------------------------------------- */

struct journal {
    char name[100]; /* "n1 job-1.0" */
    ino_t ino;
    dev_t dev; /* a disk that was replaced has the same numbers of files */
    int fd, copy;
    uint64_t bytes, seq, end;
    struct timespec changed;
    struct { unsigned job, life, node; } slice[MAX_NODES]; /* of each slot */
};
static struct journal journal[MAX_JOURNALS];
static unsigned n_journals;
/* What stands in a journal, or stood. */
static uint64_t commit_id[MAX_MARKS], commit_epoch[MAX_MARKS];
static unsigned n_commits;
static bool is_gone[MAX_NODES], is_intended[MAX_NODES], is_fenced[MAX_NODES], is_drained[MAX_NODES];
static char slot_name[MAX_NODES][64];
/* Slices that a journal calls drained, and those that Slurm has back: each life of a job once. */
static struct { unsigned job, life; bool has_left; } slice[MAX_MARKS];
static unsigned n_slices;

static uint32_t crc32c(uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    while (n--) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static uint64_t be(const uint8_t *p, size_t n)
{
    uint64_t v = 0;

    while (n--)
        v = v << 8 | *p++;
    return v;
}

static unsigned node_number(const char *name)
{
    unsigned n = name[0] == 'n' ? (unsigned)strtoul(name + 1, NULL, 10) : 0;

    return n < MAX_NODES ? n : 0;
}

static unsigned node_of_slot(uint64_t slot) { return slot < MAX_NODES ? node_number(slot_name[slot]) : 0; }

static void take_node_record(const struct journal *j, unsigned type, const uint8_t *p, size_t n)
{
    static const char *const name[] = {"?", "ADOPT", "FENCE", "END"};

    say("record %s %s", j->name, name[type < 4 ? type : 0]);
    if (type == 2 && n >= 4 && be(p, 4) == job)
        is_fenced[node_number(j->name)] = true;
}

static void mark_commit(uint64_t id, uint64_t epoch)
{
    if (n_commits == MAX_MARKS)
        return;
    commit_id[n_commits] = id;
    commit_epoch[n_commits++] = epoch;
}

/* A slice that is drained, or that the run says Slurm has back: then none of its processes lives, and never again. */
static void mark_slice(unsigned of, unsigned life, unsigned on, bool has_left)
{
    char want[3][64] = {""}, who[400];
    unsigned i = 0, alive;

    while (i < n_slices && (slice[i].job != of || slice[i].life != life))
        i++;
    if (i == MAX_MARKS || (i < n_slices && (slice[i].has_left || !has_left)))
        return;
    n_slices += i == n_slices;
    slice[i].job = of;
    slice[i].life = life;
    slice[i].has_left = has_left;
    if (!has_left)
        return;
    snprintf(want[0], sizeof want[0], "SLURM_JOB_ID=%u", of);
    snprintf(want[1], sizeof want[1], "SLURMD_NODENAME=n%u", on);
    alive = alive_with(want, (int)life, who, sizeof who);
    say("left n%u %u.%u %s", on, of, life, alive ? "alive" : "empty");
    if (alive)
        say("violation %u processes of slice %u on n%u, which the run says Slurm has back: %s", alive, of, on, who);
}

static bool is_marked(unsigned of, bool has_left)
{
    for (unsigned i = 0; i < n_slices; i++)
        if (slice[i].job == of && (slice[i].has_left || !has_left))
            return true;
    return false;
}

/* What a run of slices has more, or otherwise. */
static bool take_slices_record(struct journal *j, unsigned type, const uint8_t *p, size_t n)
{
    uint64_t at = n >= 4 ? be(p, 4) : MAX_NODES, len;
    char name[64];

    if (type == 8 || type == 10) { /* RELINTENT, HELD */
        say("record %s %s", j->name, type == 8 ? "RELINTENT" : "HELD");
        return true;
    }
    if (at > MAX_NODES || (at == MAX_NODES && type != 22))
        return false;
    switch (type) {
    case 6: case 7: case 9: /* DRAIN, GONE, RELEASED */
        say("record %s %s %u.%u", j->name, type == 6 ? "DRAIN" : type == 7 ? "GONE" : "RELEASED", j->slice[at].job, j->slice[at].life);
        mark_slice(j->slice[at].job, j->slice[at].life, j->slice[at].node, type != 6);
        return true;
    case 12: /* NODES */
        for (size_t s = n >= 16 ? be(p + 8, 4) : MAX_NODES, end = n >= 16 ? s + be(p + 12, 4) : 0, i = 16; s < end && i + 2 <= n; s++) {
            if (s >= MAX_NODES)
                break;
            len = be(p + i, 2);
            if (i + 2 + len > n || len >= sizeof name)
                break;
            memcpy(name, p + i + 2, len);
            name[len] = '\0';
            j->slice[s].node = node_number(name);
            i += 2 + len;
        }
        return true;
    case 22: /* SLICES */
        for (size_t s = 0; s < at && 4 + 6 * at <= n; s++) {
            j->slice[s].job = (unsigned)be(p + 4 + 4 * s, 4);
            j->slice[s].life = (unsigned)be(p + 4 + 4 * at + 2 * s, 2);
        }
        return true;
    case 24: /* SEAT */
        len = n >= 26 ? be(p + 24, 2) : sizeof name;
        if (len >= sizeof name || 26 + len > n)
            return true;
        memcpy(name, p + 26, len);
        name[len] = '\0';
        j->slice[at].job = (unsigned)be(p + 4, 4);
        j->slice[at].life = (unsigned)be(p + 8, 4);
        j->slice[at].node = node_number(name);
        say("record %s SEAT %u.%u", j->name, j->slice[at].job, j->slice[at].life);
        return true;
    default:
        return false;
    }
}

static void take_record(struct journal *j, unsigned type, const uint8_t *p, size_t n)
{
    static const char *const name[] = {"?", "START", "INTENT", "COMMIT", "ABORT", "DONE", "DRAIN", "GONE", "RELINTENT",
                                       "RELEASED", "HELD", "END"};
    unsigned at;

    if (strstr(j->name, " node")) {
        take_node_record(j, type, p, n);
        return;
    }
    if (is_sliced && take_slices_record(j, type, p, n))
        return;
    switch (type) {
    case 1: /* with a layout */
        if (n >= 41 && p[32])
            mark_commit(0, be(p + 33, 8));
        break;
    case 3:
        if (n >= 32)
            mark_commit(be(p, 8), be(p + 16, 8));
        break;
    case 23: /* REGROUP: INTENT and COMMIT of those who are left */
        if (n >= 24)
            mark_commit(be(p, 8), be(p + 16, 8));
        say("record %s REGROUP", j->name);
        return;
    case 6: case 7: case 9: case 10:
        at = n >= 4 ? node_of_slot(be(p, 4)) : 0;
        if (type == 6)
            is_drained[at] = true;
        if (type == 7)
            is_gone[at] = true;
        say("record %s %s n%u", j->name, name[type], at);
        return;
    case 8:
        for (size_t i = 0; n >= 12 && i < be(p + 8, 4) && 14 + 2 * i <= n; i++) {
            at = node_of_slot(be(p + 12 + 2 * i, 2));
            is_intended[at] = true;
            say("record %s RELINTENT n%u", j->name, at);
        }
        return;
    default:
        break;
    }
    if (type > 11) {
        /* NODES: n_slots, batch, first, n, names */
        uint64_t first = n >= 16 ? be(p + 8, 4) : 0, many = n >= 16 ? be(p + 12, 4) : 0;
        size_t i = 16;

        if (type != 12 || first + many > MAX_NODES)
            return;
        for (uint64_t s = first; s < first + many && i + 2 <= n; s++) {
            size_t len = (size_t)be(p + i, 2);

            if (i + 2 + len > n || len >= sizeof slot_name[0])
                return;
            memcpy(slot_name[s], p + i + 2, len);
            slot_name[s][len] = '\0';
            i += 2 + len;
        }
        return;
    }
    if ((type == 2 || type == 3 || type == 4 || type == 5) && n >= 8)
        say("record %s %s %llu", j->name, name[type], (unsigned long long)be(p, 8));
    else
        say("record %s %s", j->name, name[type]);
}

/* Copy what there is, and take the records that are new. A record whose checksum is wrong is none (yet). */
static void read_journal(struct journal *j)
{
    static uint8_t data[FILE_MAX];
    struct stat st;
    ssize_t got;

    if (fstat(j->fd, &st) < 0 || ((uint64_t)st.st_size == j->bytes && st.st_mtim.tv_sec == j->changed.tv_sec &&
                                  st.st_mtim.tv_nsec == j->changed.tv_nsec))
        return;
    got = pread(j->fd, data, sizeof data, 0);
    if (got < 0)
        return;
    j->bytes = (uint64_t)st.st_size;
    j->changed = st.st_mtim;
    if (pwrite(j->copy, data, (size_t)got, 0) != got || ftruncate(j->copy, got) < 0)
        say("violation the witness cannot keep %s: %s", j->name, strerror(errno));
    if (!j->end)
        j->end = MAGIC;
    while (j->end + HEAD <= (uint64_t)got) {
        const uint8_t *r = data + j->end;
        uint64_t len = be(r, 4);
        uint8_t head[13];

        if (len > 4096 || j->end + HEAD + len > (uint64_t)got || be(r + 8, 8) != j->seq + 1)
            break;
        memcpy(head, r, 4);
        memcpy(head + 4, r + 8, 9);
        if (crc32c(crc32c(0, head, sizeof head), r + HEAD, len) != be(r + 4, 4))
            break;
        j->seq++;
        j->end += HEAD + len;
        take_record(j, r[16], r + HEAD, len);
    }
}

static void find_journals(unsigned n)
{
    char path[400], copy[400];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof path, "%s/dynpipe/n%u", dir, n);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        size_t len = strlen(e->d_name);
        struct journal *j = NULL;
        struct stat st;

        if (len < 9 || len > 80 || strcmp(e->d_name + len - 8, ".journal") != 0)
            continue;
        snprintf(path, sizeof path, "%s/dynpipe/n%u/%s", dir, n, e->d_name);
        if (stat(path, &st) < 0)
            continue;
        for (unsigned i = 0; i < n_journals && !j; i++)
            if (journal[i].ino == st.st_ino && journal[i].dev == st.st_dev &&
                !strncmp(journal[i].name, path + strlen(dir) + 9, strcspn(path + strlen(dir) + 9, "/")))
                j = &journal[i];
        if (j || n_journals == MAX_JOURNALS)
            continue;
        j = &journal[n_journals];
        j->fd = open(path, O_RDONLY | O_CLOEXEC);
        snprintf(copy, sizeof copy, "%s/journals/n%u.%04u.%s", out, n, n_journals, e->d_name);
        j->copy = open(copy, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (j->fd < 0 || j->copy < 0 || fstat(j->fd, &st) < 0) {
            if (j->fd >= 0)
                close(j->fd);
            if (j->copy >= 0)
                close(j->copy);
            continue;
        }
        j->ino = st.st_ino;
        j->dev = st.st_dev;
        snprintf(j->name, sizeof j->name, "n%u %.*s", n, (int)(len - 8), e->d_name);
        n_journals++;
    }
    if (d)
        closedir(d);
}

static void look(unsigned n)
{
    node[n].alive = alive_on(n, node[n].who, sizeof node[n].who);
    node[n].looked_ns = now_ns();
}

static void accuse(unsigned n, const char *why)
{
    if (!node[n].is_accused)
        say("violation %u processes of the run on %s, which %s: %s", node[n].alive, place(n), why, node[n].who);
    node[n].is_accused = true;
}

static void read_slurm_log(void);

/* Slurm's log may be some way ahead of what was read of it: a process that was found may be of a job that has the place again. */
static void search(unsigned n)
{
    const char *why = node[n].is_new ? "Slurm gave to another job" : "the run does not have";

    node[n].is_new = false;
    if (node[n].is_by_hand)
        return;
    look(n);
    if (!node[n].alive)
        return;
    read_slurm_log();
    if (node[n].is_away)
        accuse(n, why);
}

/* ---- what was told --------------------------------------------------------------------------------------------- */

/* A promise that a journal must keep in the same turn. */
struct demand {
    enum { TOLD_EPOCH, TOLD_COMMIT, TOLD_DRAINED, TOLD_GONE, TOLD_ASKED, TOLD_LEFT } kind;
    uint64_t number;
};
static struct demand demand[MAX_MARKS];
static unsigned n_demands;
static uint64_t last_epoch;

static void told(int kind, uint64_t number)
{
    if (n_demands < MAX_MARKS)
        demand[n_demands++] = (struct demand){.kind = kind, .number = number};
}

static bool has_commit(uint64_t id, uint64_t epoch)
{
    for (unsigned i = 0; i < n_commits; i++)
        if ((!id || commit_id[i] == id) && (!epoch || commit_epoch[i] == epoch))
            return true;
    return false;
}

/* A node that left the run: given back by it, or taken out by its owner, who has not asked it. */
static void check_left(unsigned n)
{
    bool is_proved = is_gone[n] && is_fenced[n] && is_drained[n];

    node[n].is_by_hand = !is_intended[n];
    say("left n%u %s", n, !is_intended[n] ? "by-hand" : is_proved ? "proved" : "unproved");
    if (!is_intended[n])
        return;
    if (!is_proved)
        say("violation n%u left the run with RELINTENT and without DRAIN, GONE and FENCE", n);
    if (node[n].alive)
        accuse(n, "Slurm took out of the run");
}

static void check_demands(void)
{
    for (unsigned i = 0; i < n_demands; i++) {
        const struct demand *d = &demand[i];
        unsigned at = (unsigned)d->number;

        if (d->kind == TOLD_EPOCH && !has_commit(0, d->number))
            say("violation the run is in epoch %u, and no journal has its COMMIT", at);
        if (d->kind == TOLD_COMMIT && !has_commit(d->number, 0))
            say("violation hand-over %u is told to be committed, and no journal has its COMMIT", at);
        if (d->kind == TOLD_DRAINED && is_sliced && !is_marked(at, false))
            say("violation slice %u is told to be drained, and no journal has its DRAIN", at);
        if (d->kind == TOLD_DRAINED && !is_sliced && !is_drained[at])
            say("violation n%u is told to be drained, and no journal has its DRAIN", at);
        if (d->kind == TOLD_GONE && is_sliced && !is_marked(at, true))
            say("violation slice %u is told to be gone without GONE in a journal", at);
        if (d->kind == TOLD_GONE && !is_sliced && !(is_gone[at] && is_fenced[at]))
            say("violation n%u is told to be gone without %s in a journal", at, is_gone[at] ? "FENCE" : "GONE");
        if (d->kind == TOLD_LEFT)
            check_left(at);
    }
    n_demands = 0;
}

/* fn for each node of n[1,3-4] or n3. */
static void each_node(const char *list, void (*fn)(unsigned n))
{
    const char *p = list;

    if (*p++ != 'n')
        return;
    if (*p != '[') {
        fn(node_number(list));
        return;
    }
    do {
        unsigned first = (unsigned)strtoul(++p, (char **)&p, 10), last = first;

        if (*p == '-')
            last = (unsigned)strtoul(p + 1, (char **)&p, 10);
        for (unsigned n = first; n <= last && n < MAX_NODES; n++)
            fn(n);
    } while (*p == ',');
}

static unsigned other_job;

static void give(unsigned n)
{
    say("given %s %u %s", place(n), other_job, (is_sliced ? node[n].is_held : node[n].is_away) ? "released" : "free");
    node[n].is_held = false;
    node[n].is_away = node[n].is_new = true; /* and is searched when all logs were read */
}

static void take(unsigned n)
{
    say("taken %s", place(n));
    node[n].is_held = true;
    node[n].is_away = node[n].is_accused = node[n].is_by_hand = false;
    is_gone[n] = is_intended[n] = is_fenced[n] = is_drained[n] = false;
}

static void slurm_line(const char *line)
{
    const char *p = strstr(line, "Started JobId="), *q;
    unsigned k;

    if (!p)
        p = strstr(line, "Allocate JobId=");
    if (p) {
        k = (unsigned)strtoul(strchr(p, '=') + 1, NULL, 10);
        q = strstr(p, " on n");
        q = q ? q + 4 : (q = strstr(p, "NodeList=")) ? q + 9 : NULL;
        other_job = k;
        if (q)
            each_node(q, k == job ? take : give);
        return;
    }
    p = strstr(line, "Killing JobId=");
    q = strstr(line, " on failed node ");
    if (p && q && strtoul(p + 14, NULL, 10) == job) {
        k = node_number(q + 16);
        if (!node[k].is_away) {
            node[k].is_away = true;
            look(k);
            told(TOLD_LEFT, k);
        }
    }
}

/* Which GPU a job gets stands in slurmctld's log before it says that it has it, and on which node. */
static void slices_line(const char *line)
{
    static unsigned of, gpu, gpu_of;
    const char *p = strstr(line, " job:"), *on;
    bool is_own;

    if (p && strstr(line, "gres_job_state gres:gpu")) {
        of = (unsigned)strtoul(p + 5, NULL, 10);
        return;
    }
    p = strstr(line, "gres_bit_alloc[0]:");
    if (p && p[18] >= '0' && p[18] < '0' + (int)GPUS) {
        gpu = (unsigned)(p[18] - '0');
        gpu_of = of;
        return;
    }
    p = strstr(line, "Started JobId=");
    if (!p)
        p = strstr(line, "Allocate JobId=");
    on = p ? strstr(p, " on n") : NULL;
    on = on ? on + 4 : p && (on = strstr(p, "NodeList=")) ? on + 9 : NULL;
    if (!on)
        return;
    is_own = strstr(p, " in " OWN_PARTITION " ") || strstr(p, "Partition=" OWN_PARTITION);
    p = strchr(p, '=') + 1;
    other_job = (unsigned)strtoul(p[strcspn(p, "( ")] == '(' ? p + strcspn(p, "(") + 1 : p, NULL, 10); /* 5_1(7) */
    if (other_job != gpu_of || node_number(on) * GPUS + gpu >= MAX_NODES)
        return;
    if (is_own)
        take(node_number(on) * GPUS + gpu);
    else
        give(node_number(on) * GPUS + gpu);
}

static void daemon_line(const char *line)
{
    char mine[32];
    const char *p, *at;

    snprintf(mine, sizeof mine, is_sliced ? " job=" : " job=%u ", job);
    p = strstr(line, mine);
    if (!p || !(p = strchr(p + 1, ' ')))
        return;
    p++;
    if (is_sliced && p[0] == 'n' && (at = strstr(p, " (job ")) && at == strchr(p, ' ')) {
        unsigned long of = strtoul(at + 6, NULL, 10);

        at = strchr(at, ')');
        if (at && !strncmp(at, ") is drained", 13))
            told(TOLD_DRAINED, of);
        if (at && !strncmp(at, ") is gone:", 10))
            told(TOLD_GONE, of);
        return;
    }
    if (!strncmp(p, "hand-over ", 10) && strstr(p, " committed at step"))
        told(TOLD_COMMIT, strtoull(p + 10, NULL, 10));
    else if (!is_sliced && p[0] == 'n' && strstr(p, " is drained") == strchr(p, ' '))
        told(TOLD_DRAINED, node_number(p));
    else if (!is_sliced && p[0] == 'n' && strstr(p, " is gone:") == strchr(p, ' '))
        told(TOLD_GONE, node_number(p));
}

static int saves = -1; /* inotify: of all folders of checkpoints */
static unsigned n_reads;

static void count_reads(void)
{
    char data[16384] __attribute__((aligned(8)));
    struct inotify_event e;
    ssize_t got;

    while (saves >= 0 && (got = read(saves, data, sizeof data)) > 0)
        for (size_t i = 0; i + sizeof e <= (size_t)got; i += sizeof e + e.len) {
            memcpy(&e, data + i, sizeof e);
            if (e.len && !strncmp(data + i + sizeof e, "layer-", 6))
                n_reads++;
        }
}

/* Whoever reads layers has read them before the line is written. */
static void origin_line(const char *line, bool is_resumed)
{
    const char *p = strstr(line, "\"step\":");

    count_reads();
    say("%s %llu reads=%u", is_resumed ? "resumed" : strstr(line, "no step is lost") ? "regrouped kept" : "regrouped back",
        p ? strtoull(p + 7, NULL, 10) : 0, n_reads);
    n_reads = 0;
}

static void loss_line(const char *line)
{
    const char *p = strstr(line, "\"epoch\":");
    uint64_t epoch = p ? strtoull(p + 8, NULL, 10) : 0;

    if (!strncmp(line, "{\"event\":\"resumed\"", 18) || !strncmp(line, "{\"event\":\"regrouped\"", 20))
        origin_line(line, line[12] == 's');
    if (!p || epoch == last_epoch)
        return;
    last_epoch = epoch;
    say("epoch %llu", (unsigned long long)epoch);
    if (epoch)
        told(TOLD_EPOCH, epoch);
}

static struct log {
    char path[400];
    void (*take)(const char *line);
    int fd;
    size_t n;
    char line[8192];
} logs[MAX_LOGS];
static unsigned n_logs;

static void add_log(void (*fn)(const char *line), const char *fmt, unsigned n)
{
    struct log *l = &logs[n_logs++];

    l->take = fn;
    l->fd = -1;
    l->n = 0;
    snprintf(l->path, sizeof l->path, fmt, dir, n);
}

/* Whole lines only. What a killed writer left of one runs into the next, and is no line of either. */
static void read_log(struct log *l)
{
    char part[65536];
    ssize_t got;

    if (l->fd < 0)
        l->fd = open(l->path, O_RDONLY | O_CLOEXEC);
    while (l->fd >= 0 && (got = read(l->fd, part, sizeof part)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            if (part[i] != '\n') {
                if (l->n + 1 < sizeof l->line)
                    l->line[l->n++] = part[i];
                continue;
            }
            l->line[l->n] = '\0';
            l->n = 0;
            l->take(l->line);
        }
}

static void read_slurm_log(void) { read_log(&logs[0]); }

static void find_checkpoints(void)
{
    static char seen[100];
    char path[400];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof path, "%s/saved", dir);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, "step-", 5) != 0)
            continue;
        snprintf(path, sizeof path, "%s/saved/%s", dir, e->d_name);
        inotify_add_watch(saves, path, IN_CLOSE_NOWRITE | IN_ONLYDIR); /* one that it has is no other one */
        if (strncmp(e->d_name, seen, 13) > 0) {
            snprintf(seen, sizeof seen, "%.13s", e->d_name);
            say("saving %s", e->d_name);
        }
    }
    if (d)
        closedir(d);
}

static void stop(int signal_number)
{
    (void)signal_number;
    is_over = 1;
}

int main(int argc, char **argv)
{
    uint64_t longest = 0, before = now_ns();
    unsigned turns = 0;
    char path[400];

    is_sliced = argc == 5 && !strcmp(argv[4], "slices");
    if (argc != 4 + is_sliced || !(job = (unsigned)strtoul(argv[3], NULL, 10))) {
        fprintf(stderr, "usage: watch DIR OUT JOB [slices]\n");
        return 2;
    }
    dir = argv[1];
    out = argv[2];
    snprintf(path, sizeof path, "%s/journals", out);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/events", out);
    events = fopen(path, "ae");
    if (!events) {
        perror(path);
        return 1;
    }
    saves = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (saves < 0) {
        perror("inotify");
        return 1;
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    add_log(is_sliced ? slices_line : slurm_line, "%s/log/slurmctld.log", 0);
    add_log(loss_line, "%s/train.jsonl", 0);
    for (unsigned n = 1; n < MAX_NODES && n_logs < MAX_LOGS; n++) {
        snprintf(path, sizeof path, "%s/dynpipe/n%u", dir, n);
        if (access(path, F_OK) == 0)
            add_log(daemon_line, "%s/log/dynpiped.n%u.log", n);
    }
    for (bool is_last = false; !is_last; turns++) {
        struct timespec pause = {.tv_nsec = TURN_NS};
        uint64_t now = now_ns();

        is_last = is_over; /* once more after the signal */
        if (now - before > longest)
            longest = now - before;
        before = now;
        for (unsigned i = 0; i < n_logs; i++)
            read_log(&logs[i]);
        for (unsigned n = 1; n < MAX_NODES; n++)
            if (node[n].is_new)
                search(n);
        for (unsigned n = 1; n < MAX_NODES; n++)
            find_journals(n);
        for (unsigned i = 0; i < n_journals; i++)
            read_journal(&journal[i]);
        check_demands();
        find_checkpoints();
        for (unsigned n = 1; n < MAX_NODES; n++)
            if (node[n].is_away && now_ns() - node[n].looked_ns > (is_sliced ? SLICES_LOOK_NS : LOOK_NS))
                search(n);
        if (!is_last)
            nanosleep(&pause, NULL);
    }
    say("end turns=%u longest_ms=%llu looks=%u violations=%u", turns, (unsigned long long)(longest / 1000000u), n_looks,
        n_violations);
    return n_violations > 0;
}
