/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-learned: does learning add anything? Networks are trained with several seeds, on the families to learn from, and asked for
 * orders of graphs of other families and of published ones, beside searches that know nothing of networks
 * (policies/learn/evaluate.h).
 *
 * A case is a graph with a number of devices and a bandwidth. Loads of a case are added up over all seeds, so that a case
 * counts once in the sign test, however many seeds there are. "Learned" is claimed where the networks are better than each
 * of the others over at least five seeds and 100 generated cases.
 *
 * What was trained and planned is kept in a folder, and a run that was ended goes on where it was. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file/slurp.h"
#include "common/stdout.h"
#include "policies/graph/read/read.h"
#include "policies/graph/search/draw.h"
#include "policies/learn/evaluate.h"
#include "policies/learn/train/family.h"
#include "policies/learn/train/team.h"
#include "policies/learn/train/train.h"

#define MOST_SEEDS 64u                 /* trainings: hours of a core */
#define LEAST_SEEDS 5u                 /* for a claim */
#define LEAST_CASES 100u               /* likewise, generated ones */
#define CASE_SEED UINT64_C(0x63617365) /* stream of the generated cases */
#define LEAST_NODES 60u                /* of a generated graph; learned from are 30 to 130 */
#define MORE_NODES 140u                /* at most, by chance */
#define N_DEVICES 3                    /* numbers of devices */
#define N_BANDWIDTHS 3                 /* bandwidths */

static const uint32_t devices[N_DEVICES] = {4, 8, 16};
static const double bandwidths[N_BANDWIDTHS] = {1.25e9, 5e9, 12e9};

struct bench {
    const char *folder;
    uint32_t seeds, cases; /* generated ones */
    uint32_t n_graphs, n_all; /* published graphs; cases with theirs */
    char **path;
    struct dp_learn learn;
    struct dp_evaluation *of; /* [seeds][n_all] best_ns 0: not known yet */
};

/* ---- cases ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Which row of the table: a family, or a published graph. */
static uint32_t group_of(const struct bench *b, uint32_t which)
{
    uint32_t held_out = DP_N_FAMILIES - DP_N_LEARNED_FAMILIES;

    return which < b->cases ? which % held_out : held_out + (which - b->cases) / (N_DEVICES * N_BANDWIDTHS);
}

static const char *group_name(const struct bench *b, uint32_t group)
{
    uint32_t held_out = DP_N_FAMILIES - DP_N_LEARNED_FAMILIES;

    return group < held_out ? dp_family_name((enum dp_family)(DP_N_LEARNED_FAMILIES + group)) : base_of(b->path[group - held_out]);
}

/* *g: the caller's to release, whatever comes back. */
static int make_case(const struct bench *b, uint32_t which, struct dp_graph *g, uint32_t *n_devices, struct dp_err *err)
{
    uint32_t of_graph = (which - b->cases) % (N_DEVICES * N_BANDWIDTHS);
    double bandwidth = bandwidths[of_graph % N_BANDWIDTHS];
    int rc;

    *n_devices = devices[of_graph / N_BANDWIDTHS];
    if (which < b->cases) {
        uint64_t draws = dp_draw_stream(CASE_SEED, which);
        uint32_t n = LEAST_NODES + dp_draw_below(&draws, MORE_NODES);

        *n_devices = devices[dp_draw_below(&draws, N_DEVICES)];
        bandwidth = bandwidths[dp_draw_below(&draws, N_BANDWIDTHS)];
        rc = dp_family_make(g, (enum dp_family)(DP_N_LEARNED_FAMILIES + group_of(b, which)), n, dp_draw(&draws), err);
    } else {
        uint32_t in_graphs = (which - b->cases) / (N_DEVICES * N_BANDWIDTHS);

        rc = dp_graph_read(b->path[in_graphs], g, err);
        if (rc == 0 && g->kind != DP_GRAPH_PROFILE)
            rc = dp_err_set(err, DP_EINVAL, "%s: no profile, so it has no bandwidth", b->path[in_graphs]);
    }
    return rc == 0 ? dp_graph_set_bandwidth(g, bandwidth, err) : -1;
}

/* ---- what is kept ---- */

/* FOLDER/NAME-SEED.EXT */
static void file_name(const struct bench *b, const char *name, uint32_t seed, const char *ext, char *out, size_t cap)
{
    snprintf(out, cap, "%s/%s-%u.%s", b->folder, name, seed + 1, ext);
}

static int write_all(const char *path, const char *data, size_t bytes, struct dp_err *err)
{
    char part[4200];
    FILE *f;
    bool is_whole;

    snprintf(part, sizeof part, "%s.part", path);
    f = fopen(part, "wb");
    if (!f)
        return dp_err_set(err, DP_EIO, "%s: %s", part, strerror(errno));
    is_whole = fwrite(data, 1, bytes, f) == bytes;
    is_whole = fclose(f) == 0 && is_whole;
    if (!is_whole || rename(part, path) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    return 0;
}

/* The networks of a seed: read, or trained and written. */
static int weights_of(const struct bench *b, uint32_t seed, struct dp_weights *w, struct dp_err *err)
{
    struct dp_learn ask = b->learn;
    char path[4096], *data;
    size_t bytes;
    int rc;

    file_name(b, "order", seed, "dpw", path, sizeof path);
    if (access(path, F_OK) == 0)
        return dp_weights_read(path, w, err);
    fprintf(stderr, "bench_learned: seed %u learns for %u iterations\n", seed + 1, ask.iterations);
    ask.seed = seed + 1;
    if (dp_learn_run(&ask, w, err) < 0 || dp_weights_encode(w, &data, &bytes, err) < 0)
        return -1;
    fprintf(stderr, "bench_learned: seed %u: %u of %u networks were trained, the others are random rules\n", seed + 1, w->n_trained, w->n);
    rc = write_all(path, data, bytes, err);
    free(data);
    return rc;
}

/* A line: the case and its name, then loads and seconds of all, then the best known load and a point, without which it is cut off.
 * returns: is it one? */
static bool parse_line(const struct bench *b, const char *line, uint32_t *which, struct dp_evaluation *e)
{
    char name[128];
    int used = 0;

    *e = (struct dp_evaluation){0};
    if (sscanf(line, "%" SCNu32 " %127s%n", which, name, &used) != 2 || *which >= b->n_all ||
        strcmp(name, group_name(b, group_of(b, *which))) != 0)
        return false;
    for (int r = 0; r < DP_N_RIVALS; r++) {
        int more = 0;

        line += used;
        if (sscanf(line, " %" SCNu64 " %lf%n", &e->load_ns[r], &e->cpu_s[r], &more) != 2)
            return false;
        used = more;
    }
    line += used;
    used = 0;
    return sscanf(line, " %" SCNu64 " .%n", &e->best_ns, &used) == 1 && used && e->best_ns;
}

/* The file's first line says which networks its lines are of. */
static int read_cases(const struct bench *b, uint32_t seed, uint32_t crc, struct dp_err *err)
{
    char path[4096], *text = NULL, *line, *rest = NULL;
    unsigned was = 0;
    size_t bytes;
    int rc = 0;

    file_name(b, "cases", seed, "txt", path, sizeof path);
    if (access(path, F_OK) < 0)
        return 0;
    if (dp_slurp_text(path, 64u << 20, &text, &bytes, err) < 0)
        return -1;
    line = strtok_r(text, "\n", &rest);
    if (!line || sscanf(line, "networks %x", &was) != 1 || was != crc)
        rc = dp_err_set(err, DP_EINVAL, "%s: it is of other networks than those of this seed: remove it", path);
    while (rc == 0 && (line = strtok_r(NULL, "\n", &rest))) {
        struct dp_evaluation e;
        uint32_t which;

        if (parse_line(b, line, &which, &e)) /* another one is of graphs that are not asked for now, or was not finished */
            b->of[(size_t)seed * b->n_all + which] = e;
    }
    free(text);
    return rc;
}

static void print_line(FILE *f, const struct bench *b, uint32_t which, const struct dp_evaluation *e)
{
    fprintf(f, "%" PRIu32 " %s", which, group_name(b, group_of(b, which)));
    for (int r = 0; r < DP_N_RIVALS; r++)
        fprintf(f, " %" PRIu64 " %.4f", e->load_ns[r], e->cpu_s[r]);
    fprintf(f, " %" PRIu64 " .\n", e->best_ns);
}

static int plan_cases(const struct bench *b, uint32_t seed, const struct dp_weights *w, const struct dp_weights *shuffled, FILE *f,
                      struct dp_err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < b->n_all; i++) {
        struct dp_evaluation *e = &b->of[(size_t)seed * b->n_all + i];
        struct dp_graph g;
        uint32_t n;

        if (e->best_ns)
            continue;
        rc = make_case(b, i, &g, &n, err);
        if (rc == 0)
            rc = dp_evaluate(&g, n, w, shuffled, seed + 1, 0, seed == 0, e, err); /* of a case one longer search is enough */
        dp_graph_release(&g);
        if (rc < 0)
            return rc;
        print_line(f, b, i, e);
        if (fflush(f) != 0)
            rc = dp_err_set(err, DP_EIO, "%s: %s", b->folder, strerror(errno));
    }
    return rc;
}

static int run_seed(const struct bench *b, uint32_t seed, struct dp_err *err)
{
    struct dp_weights w = {0}, shuffled = {0};
    char path[4096];
    FILE *f = NULL;
    bool is_new;
    int rc = weights_of(b, seed, &w, err);

    if (rc == 0)
        rc = dp_weights_shuffle(&w, seed + 1, &shuffled, err);
    if (rc == 0)
        rc = read_cases(b, seed, w.crc, err);
    if (rc == 0) {
        file_name(b, "cases", seed, "txt", path, sizeof path);
        is_new = access(path, F_OK) < 0;
        f = fopen(path, "a");
        if (!f)
            rc = dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        else if (is_new)
            fprintf(f, "networks %08x\n", w.crc);
        else
            fputc('\n', f); /* behind a line that was cut off */
    }
    if (rc == 0)
        rc = plan_cases(b, seed, &w, &shuffled, f, err);
    if (f && fclose(f) != 0 && rc == 0)
        rc = dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    dp_weights_release(&w);
    dp_weights_release(&shuffled);
    return rc;
}

/* ---- the table ---- */

/* A case over all seeds: sums of loads, and the best known load as often. */
static struct dp_evaluation sum_of(const struct bench *b, uint32_t which)
{
    struct dp_evaluation sum = {.best_ns = UINT64_MAX};

    for (uint32_t s = 0; s < b->seeds; s++) {
        const struct dp_evaluation *e = &b->of[(size_t)s * b->n_all + which];

        for (int r = 0; r < DP_N_RIVALS; r++) {
            sum.load_ns[r] += e->load_ns[r];
            sum.cpu_s[r] += e->cpu_s[r] / b->seeds;
        }
        sum.best_ns = e->best_ns < sum.best_ns ? e->best_ns : sum.best_ns;
    }
    sum.best_ns *= b->seeds;
    return sum;
}

static void show_row(const char *name, const struct dp_evaluation_sums *s)
{
    printf("| %s | %u |", name, s->n);
    for (int r = 0; r < DP_N_RIVALS; r++)
        printf(" %.2f, %.2f |", s->n ? s->gap[r] / s->n : 0, s->worst[r]);
    printf("\n");
}

static void show_tests(const char *name, const struct dp_evaluation_sums *s)
{
    printf("| %s |", name);
    for (int r = DP_RIVAL_NETWORKS + 1; r < DP_N_RIVALS; r++)
        printf(" %u : %u, %.2g |", s->wins[r], s->losses[r], dp_sign_test(s->wins[r], s->losses[r]));
    printf("\n");
}

static void show_names(const char *first, const char *second, int from)
{
    printf("| %s |", first);
    if (second)
        printf(" %s |", second);
    for (int r = from; r < DP_N_RIVALS; r++)
        printf(" %s |", dp_rival_name((enum dp_rival)r));
    printf("\n|%s", second ? "---|---|" : "---|");
    for (int r = from; r < DP_N_RIVALS; r++)
        printf("---|");
    printf("\n");
}

static void show(const struct bench *b)
{
    struct dp_evaluation_sums generated = {.n = 0}, published = {.n = 0};
    uint32_t n_groups = DP_N_FAMILIES - DP_N_LEARNED_FAMILIES + b->n_graphs;

    printf("%u seeds, %u generated cases; percent above the best known load: mean, worst\n\n", b->seeds, b->cases);
    show_names("graphs", "cases", DP_RIVAL_NETWORKS);
    for (uint32_t group = 0; group < n_groups; group++) {
        struct dp_evaluation_sums s = {.n = 0};

        for (uint32_t i = 0; i < b->n_all; i++) {
            struct dp_evaluation e = sum_of(b, i);

            if (group_of(b, i) != group)
                continue;
            dp_evaluation_add(&s, &e);
            dp_evaluation_add(i < b->cases ? &generated : &published, &e);
        }
        show_row(group_name(b, group), &s);
    }
    show_row("all generated", &generated);
    show_row("all published", &published);
    printf("| seconds of a core, generated | %u |", generated.n);
    for (int r = 0; r < DP_N_RIVALS; r++)
        printf(" %.3f |", generated.n ? generated.cpu_s[r] / generated.n : 0);
    printf("\n\nCases in which learned orders are better : worse than others, p of the sign test:\n\n");
    show_names("graphs", NULL, DP_RIVAL_RULES);
    show_tests("generated", &generated);
    show_tests("published", &published);
    printf("\n%s\n", b->seeds < LEAST_SEEDS || b->cases < LEAST_CASES ? "Too few seeds or cases for a claim (5 and 100)."
                     : dp_evaluation_wins_all(&generated)
                         ? "Learned orders are better than all others on families that training never saw."
                         : "Learning added nothing that is proved.");
}

/* ---- the command line ---- */

static bool number(const char *arg, const char *name, uint32_t most, uint32_t *out)
{
    size_t n = strlen(name);
    unsigned long v;
    char *end;

    if (strncmp(arg, name, n) != 0)
        return false;
    v = strtoul(arg + n, &end, 10);
    if (end == arg + n || *end || v > most) {
        fprintf(stderr, "bench_learned: %s: expected a number up to %u\n", arg, most);
        exit(2);
    }
    *out = (uint32_t)v;
    return true;
}

static int parse(struct bench *b, int argc, char *argv[])
{
    struct dp_err err;
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strncmp(argv[i], "--folder=", 9))
            b->folder = argv[i] + 9;
        else if (!strncmp(argv[i], "--method=", 9)) {
            if (dp_learn_method_find(argv[i] + 9, &b->learn.method, &err) < 0)
                return fprintf(stderr, "bench_learned: %s\n", err.text), -1;
        } else if (!number(argv[i], "--seeds=", MOST_SEEDS, &b->seeds) && !number(argv[i], "--cases=", 100000, &b->cases) &&
                   !number(argv[i], "--iterations=", 1000000, &b->learn.iterations) &&
                   !number(argv[i], "--threads=", DP_TEAM_MOST, &b->learn.threads)) {
            fprintf(stderr, "usage: bench_learned [--folder=F] [--seeds=N] [--cases=N] [--iterations=N] [--threads=N] [--method=M] "
                            "[GRAPH...]\n");
            return -1;
        }
    }
    b->path = argv + i;
    b->n_graphs = (uint32_t)(argc - i);
    b->n_all = b->cases + b->n_graphs * N_DEVICES * N_BANDWIDTHS;
    return b->seeds && b->n_all && b->learn.threads ? 0 : -1;
}

int main(int argc, char *argv[])
{
    struct bench b = {.folder = "bench-learned", .seeds = LEAST_SEEDS, .cases = LEAST_CASES, .learn = {.iterations = 1000, .threads = 1}};
    struct dp_err err = {.text = ""};
    int rc = 0;

    if (parse(&b, argc, argv) < 0)
        return 2;
    if (mkdir(b.folder, 0777) < 0 && errno != EEXIST)
        rc = dp_err_set(&err, DP_EIO, "%s: %s", b.folder, strerror(errno));
    b.of = calloc((size_t)b.seeds * b.n_all, sizeof *b.of);
    if (!b.of)
        rc = dp_err_set(&err, DP_ENOMEM, "out of memory");
    for (uint32_t s = 0; rc == 0 && s < b.seeds; s++)
        rc = run_seed(&b, s, &err);
    if (rc == 0)
        show(&b);
    else
        fprintf(stderr, "bench_learned: %s\n", err.text);
    free(b.of);
    return rc == 0 && dp_stdout_flush(&err) == 0 ? 0 : 1;
}
