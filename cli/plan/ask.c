/* SPDX-License-Identifier: BSD-3-Clause */
/* The question of `dynpipe plan` from its options. */
#include "config.h"

#include "cli/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command/options.h"
#include "policies/graph/papers/papers.h"

/* What an unnamed network is taken for: PCIe 3.0 x16 inside of a machine, 10 Gbit/s Ethernet between. */
static const double default_bytes_per_s[DP_PLAN_LEVELS] = {12e9, 1.25e9};

/* A number with a unit of bytes behind it: 16e9, 16G, 16GB, 16GiB. */
static int parse_bytes(const char *text, double *out)
{
    static const char letters[] = "KMGTP";
    char *end;
    const char *letter;
    double base = 1000.0;

    errno = 0;
    *out = strtod(text, &end);
    if (errno || end == text || !(*out > 0.0 && *out <= 1e18))
        return -1;
    if (!*end || !strcmp(end, "B"))
        return 0;
    letter = strchr(letters, *end == 'k' ? 'K' : *end);
    if (!letter)
        return -1;
    end++;
    if (*end == 'i') {
        base = 1024.0;
        end++;
    }
    for (const char *l = letters; l <= letter; l++)
        *out *= base;
    return (*end && strcmp(end, "B") != 0) || !(*out <= 1e18) ? -1 : 0;
}

/* "12", or "12,1.25": a number for the inside of a machine, and one for between machines. */
static int parse_levels(const char *text, uint32_t n_levels, double low, double high, double out[DP_PLAN_LEVELS])
{
    for (uint32_t level = 0; level < n_levels; level++) {
        char *end;

        out[level] = strtod(text, &end);
        if (end == text || !(out[level] >= low && out[level] <= high) || *end != (level + 1 < n_levels ? ',' : '\0'))
            return -1;
        text = end + 1;
    }
    return 0;
}

/* Numbers of --bandwidth: of each level, or inside of a class of devices and between classes. */
static uint32_t bandwidths(const struct dp_plan_problem *q)
{
    return q->classes.n ? 2 : q->n_levels;
}

static int parse_bandwidth(const char *text, struct dp_plan_problem *q)
{
    double gb_per_s[DP_PLAN_LEVELS];

    if (parse_levels(text, bandwidths(q), 0.001, 1e6, gb_per_s) < 0)
        return -1;
    for (uint32_t level = 0; level < bandwidths(q); level++)
        q->bytes_per_s[level] = gb_per_s[level] * 1e9;
    return 0;
}

static int parse_latency(const char *text, struct dp_plan_problem *q)
{
    double us[DP_PLAN_LEVELS];

    if (parse_levels(text, q->n_levels, 0, 1e7, us) < 0)
        return -1;
    for (uint32_t level = 0; level < q->n_levels; level++)
        q->latency_ns[level] = (uint64_t)(us[level] * 1e3 + 0.5);
    return 0;
}

static int parse_cpus(const char *text, uint32_t *out)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || n > 1000)
        return -1;
    *out = (uint32_t)n;
    return 0;
}

/* "1,1,0.5": a number for each device. returns: how many, 0: not that, or out of memory. */
static uint32_t parse_speeds(const char *text, double **out)
{
    uint32_t n = 1;

    for (const char *p = text; *p; p++)
        n += *p == ',';
    *out = n <= 65535 ? calloc(n, sizeof **out) : NULL;
    for (uint32_t i = 0; *out && i < n; i++) {
        char *end;
        double v = strtod(text, &end);

        if (end == text || !(v >= 1e-6 && v <= 1e6) || *end != (i + 1 < n ? ',' : '\0'))
            return 0;
        (*out)[i] = v;
        text = end + 1;
    }
    return *out ? n : 0;
}

static int take_speeds(const struct dp_cli *cli, struct dp_plan_problem *q, struct dp_err *err)
{
    uint32_t n = cli->speed ? parse_speeds(cli->speed, &q->speed) : 0;

    if (!cli->speed)
        return 0;
    if (!n)
        return dp_err_set(err, DP_EINVAL, "--speed=%s: expected a number from 1e-6 to 1e6 for each device, like 1,1,0.5", cli->speed);
    if (!cli->devices) {
        q->n_levels = 1;
        q->devices[0] = n;
    }
    if (q->n_levels > 1)
        return dp_err_set(err, DP_EINVAL, "--speed: supported for devices of one level, not for machines");
    if (n != q->devices[0])
        return dp_err_set(err, DP_EINVAL, "--speed=%s: %u numbers for %u devices", cli->speed, n, q->devices[0]);
    return 0;
}

static int parse_seconds(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end == text || *end || !(*out >= 0.001 && *out <= 1e6) ? -1 : 0;
}

static int parse(const struct dp_cli *cli, const struct dp_graph *g, struct dp_plan_problem *q,
                 struct dp_err *err)
{
    double bytes;
    int levels = 0;

    if (cli->devices && dp_classes_is_text(cli->devices)) {
        if (dp_plan_classes(cli, g, q, err) < 0)
            return -1;
        levels = 1;
    } else if (cli->devices) {
        levels = dp_cli_devices(cli->devices, 65535, q->devices);
    }
    if (levels < 0)
        return dp_err_set(err, DP_EINVAL, "--devices=%s: expected a number, 4x2 for 2 machines of 4, or classes like 8xa100,8xt4",
                          cli->devices);
    q->n_levels = (uint32_t)levels;
    if (!cli->devices && !cli->speed) {
        if (g->kind == DP_GRAPH_PROFILE && !g->n_accel)
            return dp_err_set(err, DP_EINVAL,
                              "a profile does not say how many devices there are; use --devices=N");
        q->n_levels = 1;
        q->devices[0] = g->n_accel;
    }
    if (take_speeds(cli, q, err) < 0)
        return -1;
    q->has_bandwidth = cli->bandwidth != NULL;
    q->has_weights = cli->weights != NULL;
    if (cli->bandwidth && parse_bandwidth(cli->bandwidth, q) < 0)
        return dp_err_set(
            err, DP_EINVAL, "--bandwidth=%s: expected %s GB/s, from 0.001 to 1000000", cli->bandwidth,
            q->classes.n ? "12,1.25 (inside of a class, between classes) in"
            : q->n_levels == 1 ? "one number of" : "12,1.25 (inside of a machine, between machines) in");
    if (cli->latency && parse_latency(cli->latency, q) < 0)
        return dp_err_set(err, DP_EINVAL, "--latency=%s: expected %s microseconds, from 0 to 10000000", cli->latency,
                          q->n_levels == 1 ? "one number of" : "5,30 (inside of a machine, between machines) in");
    if (cli->memory) {
        q->has_memory = true;
        if (parse_bytes(cli->memory, &bytes) < 0)
            return dp_err_set(err, DP_EINVAL, "--memory=%s: expected a size like 16GiB", cli->memory);
        q->memory_bytes = (uint64_t)bytes;
    }
    if (cli->cpus) {
        q->has_cpus = true;
        if (parse_cpus(cli->cpus, &q->n_cpus) < 0)
            return dp_err_set(err, DP_EINVAL, "--cpus=%s: expected a number from 0 to 1000", cli->cpus);
    }
    if (cli->objective && strcmp(cli->objective, "load") != 0 && strcmp(cli->objective, "iteration") != 0)
        return dp_err_set(err, DP_EINVAL, "--objective=%s: expected load or iteration", cli->objective);
    if (cli->time_limit && parse_seconds(cli->time_limit, &q->time_limit_s) < 0)
        return dp_err_set(err, DP_EINVAL, "--time-limit=%s: expected seconds, from 0.001 to 1000000", cli->time_limit);
    if (cli->algorithm && dp_plan_algorithm_find(cli->algorithm, &q->algorithm, err) < 0)
        return dp_err_prefix(err, "--algorithm=%s", cli->algorithm);
    return dp_cli_policy_take("policy", cli->policy, cli->arguments, &q->policy, err);
}

static bool takes_weights(enum dp_plan_algorithm a)
{
    return a == DP_PLAN_AUTO || a == DP_PLAN_LINE || a == DP_PLAN_LEARNED || a == DP_PLAN_DRL_PP || a == DP_PLAN_HIERARCHICAL;
}

/* What classes of devices do not go with. */
static int check_classes(const struct dp_cli *cli, const struct dp_plan_problem *q, struct dp_err *err)
{
    const struct {
        bool is_given;
        const char *option;
    } others[] = {{cli->speed, "speed"},         {cli->cpus, "cpus"},   {cli->latency, "latency"},
                  {cli->objective, "objective"}, {cli->trade, "trade"}, {cli->policy, "policy"}};
    bool is_for_them = q->algorithm == DP_PLAN_CLASSES || q->algorithm == DP_PLAN_HETPIPE;

    if (q->classes.n && !is_for_them)
        return dp_err_set(err, DP_EINVAL, "--devices: --algorithm=%s takes devices for alike; classes and hetpipe know several classes",
                          dp_plan_algorithm_name(q->algorithm));
    if (!q->classes.n && is_for_them)
        return dp_err_set(err, DP_EINVAL, "--algorithm=%s: which classes of devices? Use --devices=8xa100,8xt4",
                          dp_plan_algorithm_name(q->algorithm));
    for (size_t i = 0; q->classes.n && i < sizeof others / sizeof *others; i++)
        if (others[i].is_given)
            return dp_err_set(err, DP_EINVAL, "--%s: not for devices of several classes", others[i].option);
    return 0;
}

/* Links and memory, where no file says what they are. */
static void fill_classes(struct dp_plan_problem *q)
{
    if (q->is_described)
        return;
    q->classes.between_bytes_per_s = q->bytes_per_s[1];
    for (uint32_t i = 0; i < q->classes.n; i++) {
        q->classes.of[i].bytes_per_s = q->bytes_per_s[0];
        if (q->has_memory)
            q->classes.of[i].accel_bytes = q->memory_bytes;
    }
}

/* What does not go together. */
static int check(const struct dp_graph *g, const struct dp_plan_problem *q, struct dp_err *err)
{
    const char *name = dp_plan_algorithm_name(q->algorithm);
    bool has_links = dp_plan_has_links(q->algorithm), is_paper = dp_paper_is(q->algorithm);

    if (q->speed && has_links)
        return dp_err_set(err, DP_EINVAL,
                          "--speed: --algorithm=%s takes devices for alike, since replicas of a stage get the same; "
                          "exact and line know speeds",
                          name);
    if (g->kind == DP_GRAPH_PROFILE) {
        if (q->n_cpus)
            return dp_err_set(err, DP_EINVAL, "--cpus: a profile has no CPU times");
        if (q->n_levels > 1 && q->algorithm != DP_PLAN_HIERARCHICAL && dp_paper_levels(q->algorithm) < 2)
            return dp_err_set(err, DP_EINVAL, "--algorithm=%s supports one level of devices, not machines", name);
        if (q->has_memory && q->n_levels > 1)
            return dp_err_set(err, DP_EINVAL, "--memory: supported for devices of one level, not for machines");
        if (q->memory_bytes != UINT64_MAX && q->n_levels > 1)
            return dp_err_set(err, DP_EINVAL,
                              "--devices: this file limits the memory of devices, which is supported for devices of one level, "
                              "not for machines");
    } else {
        if (has_links)
            return dp_err_set(err, DP_EINVAL, "--algorithm=%s: replicas need the sizes of parameters, which this file does not have", name);
        if (q->n_levels > 1)
            return dp_err_set(
                err, DP_EINVAL,
                "--devices: this file gives one cost per transfer, so devices have one level");
        if (q->has_bandwidth)
            return dp_err_set(err, DP_EINVAL, "--bandwidth: this file already says what transfers cost");
        if (q->devices[0] + q->n_cpus == 0)
            return dp_err_set(err, DP_EINVAL, "the file does not say how many devices there are; use --devices=N");
    }
    if (q->policy.name && q->n_levels > 1)
        return dp_err_set(err, DP_EINVAL, "--policy: a policy cuts for one level of devices, not for machines");
    if (q->policy.name && is_paper)
        return dp_err_set(err, DP_EINVAL, "--policy: a policy cuts plans of one device a stage; --algorithm=%s makes others", name);
    if (q->policy.name && q->speed)
        return dp_err_set(err, DP_EINVAL, "--policy: a policy assumes equal devices here and cannot be combined with --speed");
    if (q->policy.name && q->n_cpus)
        return dp_err_set(err, DP_EINVAL, "--policy: a policy cuts for accelerators only: --cpus=0");
    if (q->has_weights && !takes_weights(q->algorithm))
        return dp_err_set(err, DP_EINVAL,
                          "--weights: --algorithm=%s makes its own orders; learned, line, hierarchical and auto take those of networks, "
                          "drl-pp one that places units",
                          name);
    if (q->is_straight && q->algorithm != DP_PLAN_HIERARCHICAL && q->algorithm != DP_PLAN_CLASSES)
        return dp_err_set(err, DP_EINVAL, "--straight: only the algorithms hierarchical and classes make replicas");
    return 0;
}

int dp_plan_ask(const struct dp_cli *cli, const struct dp_graph *g, struct dp_plan_problem *q,
                struct dp_err *err)
{
    *q = (struct dp_plan_problem){
        .memory_bytes = g->accel_bytes, .n_cpus = g->n_cpus, .is_straight = cli->straight, .seed = cli->simulate.seed};
    memcpy(q->bytes_per_s, default_bytes_per_s, sizeof q->bytes_per_s);
    if (g->bytes_per_s > 0)
        q->bytes_per_s[0] = g->bytes_per_s;
    q->microbatches = g->microbatches;
    if (parse(cli, g, q, err) < 0)
        return -1;
    if (q->algorithm == DP_PLAN_AUTO && q->classes.n)
        q->algorithm = DP_PLAN_CLASSES;
    if (check_classes(cli, q, err) < 0 || dp_plan_workers_take(cli, q, err) < 0)
        return -1;
    if (q->classes.n)
        fill_classes(q);
    if (q->algorithm == DP_PLAN_AUTO && g->kind == DP_GRAPH_PROFILE && !q->speed) /* replicas are alike */
        q->algorithm = DP_PLAN_HIERARCHICAL;
    q->for_iteration = cli->objective ? !strcmp(cli->objective, "iteration")
                                      : dp_plan_has_latency(q) && !q->policy.name && !dp_paper_is(q->algorithm);
    if (q->for_iteration || dp_plan_has_latency(q)) /* plans of different depth are compared */
        q->microbatches = dp_plan_microbatches(q);
    q->is_straight |= q->policy.name && q->algorithm == DP_PLAN_HIERARCHICAL; /* a policy knows no replicas */
    if (cli->objective && dp_paper_is(q->algorithm))
        return dp_err_set(err, DP_EINVAL, "--objective: --algorithm=%s minimises what its paper does",
                          dp_plan_algorithm_name(q->algorithm));
    if (cli->objective && q->policy.name)
        return dp_err_set(err, DP_EINVAL, "--objective: a policy has its own; it cannot be combined with --policy");
    return check(g, q, err);
}
