/* SPDX-License-Identifier: BSD-3-Clause */
/* See options.h. One table holds every option with its help; a subcommand's mask says which of them
 * it takes, so that an option which means nothing there is an error and not silence. */
#include "config.h"

#include "cli/command/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command/slurm_job.h"
#include "cli/show/text.h"
#include "common/schedule/list.h"
#include "policies/sim/scheme/list.h"

enum {
    OPT_HELP = 256, OPT_JSON, OPT_SOCKET, OPT_NODE, OPT_CONFIG, OPT_FROM, OPT_SET, OPT_INTERVAL, OPT_WAIT,
    OPT_PLAIN, OPT_ASCII, OPT_COLOR, OPT_DEVICES, OPT_BANDWIDTH, OPT_LATENCY, OPT_MEMORY, OPT_CPUS, OPT_SPEED, OPT_ALGORITHM, OPT_STRAIGHT,
    OPT_TRADE, OPT_OBJECTIVE, OPT_TIME_LIMIT, OPT_POLICY, OPT_COSTS, OPT_DEVICE, OPT_COEFFICIENTS, OPT_WEIGHTS,
    OPT_VIRTUAL_WORKERS, OPT_EVALUATE,
    OPT_STAGES, OPT_SCHEDULE, OPT_BALANCE, OPT_ARGUMENTS, OPT_CHUNKS, OPT_MICROBATCHES, OPT_REPLICAS, OPT_ITERATIONS, OPT_DRAW,
    OPT_CHROME_TRACE, OPT_SVG, OPT_GRAPH_BANDWIDTH, OPT_MEGATRON, OPT_CLUSTER, OPT_SCHEDULER, OPT_SAVE_SWF,
    OPT_SEED, OPT_NODES, OPT_SCHEME, OPT_ADVISE, OPT_THREADS, OPT_METHOD,
};

struct option_entry {
    unsigned takes; /* 0: every subcommand */
    int value;      /* a letter, or OPT_ */
    const char *name, *argument, *help;
};

static const struct option_entry entries[] = {
    {DP_TAKES_JOB, 'j', "job", "JOB", "the run of this Slurm job (default: $SLURM_JOB_ID, else the only run)"},
    {DP_TAKES_NODES, 'j', "job", "JOB", "look at the nodes of this Slurm job, and at the way to its batch host"},
    {DP_TAKES_NODES, OPT_NODES, "nodes", "LIST", "look at these nodes (n[1-4],n9), and at the way to the first of them"},
    {DP_TAKES_ALL, 'a', "all", NULL, "everything: runs that are over (status), every node (check), every row (simulate)"},
    {DP_TAKES_DETAIL, 'a', "all", NULL, "every name, however many lines they take"},
    {DP_TAKES_COUNT, 'n', "number", "N", "at most the last N decisions (default 5)"},
    {DP_TAKES_SET, OPT_SET, "set", "LAYOUT", "ask for this layout, for example \"0-3|4-9|-|-\" or \"Et*3|t*5L||\""},
    {DP_TAKES_SET, OPT_MEGATRON, "megatron", NULL, "print the layout as Megatron's --pipeline-model-parallel-layout has it"},
    {DP_TAKES_SIMULATE, OPT_STAGES, "devices", "N", "of one pipeline; 4x2: on 2 nodes of 4 (default: what the file says)"},
    {DP_TAKES_SIMULATE, OPT_SCHEDULE, "schedule", "NAME", &DP_SCHEDULES(DP_SCHEDULE_COMMA) ", instead of the file's; help: list them"[2]},
    {DP_TAKES_SIMULATE, OPT_CHUNKS, "chunks", "N", "of the model on each device (interleaved)"},
    {DP_TAKES_SIMULATE, OPT_MICROBATCHES, "microbatches", "N", "of one pipeline in one iteration"},
    {DP_TAKES_SIMULATE, OPT_REPLICAS, "replicas", "N", "pipelines that train the model in parallel"},
    {DP_TAKES_SIMULATE, OPT_BALANCE, "balance", "POLICY", "find every layout with this policy; ./FILE.so: your own; help: list them"},
    {DP_TAKES_PLAN | DP_TAKES_SIMULATE, OPT_ARGUMENTS, "arguments", "WORDS", "for your own policy (./FILE.so), separated by blanks"},
    {DP_TAKES_SIMULATE, OPT_SCHEME, "scheme", "SCHEME",
     &DP_SIM_SCHEMES(DP_SIM_SCHEME_COMMA) ": NAME[,KEY=VALUE...]; help: list them; NAME,help: its keys"[2]},
    {DP_TAKES_SIMULATE, OPT_ADVISE, "advise", NULL, "how many devices to ask for, and the layouts for other programs"},
    {DP_TAKES_SIMULATE, OPT_ITERATIONS, "iterations", "N", "end the run after this many"},
    {DP_TAKES_SIMULATE, OPT_DRAW, "draw", "ITERATION", "which one to draw and to show by stages (default: the last)"},
    {DP_TAKES_SIMULATE, OPT_CHROME_TRACE, "chrome-trace", "FILE", "write that iteration for chrome://tracing and Perfetto"},
    {DP_TAKES_SIMULATE, OPT_SVG, "svg", "FILE", "write that iteration, or the cluster, as a picture"},
    {DP_TAKES_SVG, OPT_SVG, "svg", "FILE", "write the run over time as a picture, too"},
    {DP_TAKES_SIMULATE, OPT_CLUSTER, "cluster", "FILE", "a job mix on a cluster instead of a run: its description"},
    {DP_TAKES_SIMULATE, OPT_SCHEDULER, "scheduler", "NAME", "instead of those that the description names; help: list them"},
    {DP_TAKES_PLAN | DP_TAKES_SIMULATE, OPT_SEED, "seed", "N", "of the search for orders (plan), or of the model that makes jobs"},
    {DP_TAKES_SIMULATE, OPT_SAVE_SWF, "save-swf", "FILE", "write the jobs of the cluster as a workload file, with how long they waited"},
    {DP_TAKES_LEARN, 'o', "output", "FILE", "the file to write"},
    {DP_TAKES_LEARN, OPT_METHOD, "method", "NAME", "how to learn, instead of ppo; help: list them"},
    {DP_TAKES_LEARN, OPT_EVALUATE, "evaluate", "FILE", "learn nothing: compare its networks with other searches, on graphs"},
    {DP_TAKES_LEARN, OPT_SEED, "seed", "N", "of everything that is drawn; the same seed gives the same file"},
    {DP_TAKES_LEARN, OPT_ITERATIONS, "iterations", "N", "of the training (default 1000)"},
    {DP_TAKES_LEARN, OPT_THREADS, "threads", "N", "that learn, 64 at most (default: as many as processors); the file is the same"},
    {DP_TAKES_INTERVAL, OPT_INTERVAL, "interval", "SECONDS", "time between two looks (default 1)"},
    {DP_TAKES_INTERVAL, OPT_WAIT, "wait", NULL, "wait for the run to begin, however long (else 30 s)"},
    {DP_TAKES_INTERVAL, OPT_PLAIN, "plain", NULL, "lines instead of the live view"},
    {DP_TAKES_PLAN, OPT_DEVICES, "devices", "N", "accelerators; 4x2: 2 machines of 4; 8xa100,8xt4: classes (default: what the file says)"},
    {DP_TAKES_PLAN, OPT_BANDWIDTH, "bandwidth", "GB/S", "of a profile's transfers; 12,1.25: inside and between machines"},
    {DP_TAKES_SIMULATE, OPT_GRAPH_BANDWIDTH, "bandwidth", "GB/S", "of the transfers of a graph that is a profile (default 12)"},
    {DP_TAKES_PLAN, OPT_LATENCY, "latency", "US", "of a message: look for the shortest iteration; 5,30: inside and between machines"},
    {DP_TAKES_PLAN, OPT_MEMORY, "memory", "SIZE", "of an accelerator, such as 16GiB (default: what the file says, or no limit)"},
    {DP_TAKES_PLAN, OPT_CPUS, "cpus", "N", "CPUs that may be stages, too (default: what the file says)"},
    {DP_TAKES_PLAN, OPT_SPEED, "speed", "LIST", "of each accelerator along the pipeline, such as 1,1,0.5 (default: all 1)"},
    {DP_TAKES_PLAN, OPT_ALGORITHM, "algorithm", "NAME", "how to search, instead of auto; help: list them"},
    {DP_TAKES_PLAN, OPT_VIRTUAL_WORKERS, "virtual-workers", "HOW", "of hetpipe: np, ed, hd or any, with a number like ed:4 (default: any)"},
    {DP_TAKES_PLAN, OPT_WEIGHTS, "weights", "FILE", "networks that propose orders, or place units, written by dynpipe learn"},
    {DP_TAKES_PLAN, OPT_POLICY, "policy", "POLICY", "cut the resulting order again with this policy; ./FILE.so: your own"},
    {DP_TAKES_PLAN | DP_TAKES_SIMULATE, OPT_STRAIGHT, "straight", NULL, "of a profile: one device a stage, no replicas"},
    {DP_TAKES_PLAN, OPT_TRADE, "trade", NULL, "also plan for every smaller number of devices: what each would give and cost"},
    {DP_TAKES_PLAN, OPT_OBJECTIVE, "objective", "NAME", "load: of the busiest device; iteration: simulated (default with --latency)"},
    {DP_TAKES_PLAN, OPT_TIME_LIMIT, "time-limit", "SECONDS", "stop searching after this time and take the best plan so far"},
    {DP_TAKES_PLAN, OPT_COSTS, "costs", "HOW", "times of the operators: measured, estimate or complete; help: what that is"},
    {DP_TAKES_PLAN, OPT_DEVICE, "device", "NAME", "that estimates are for, such as h100:bf16; ./FILE: your own; help: list them"},
    {DP_TAKES_PLAN, OPT_COEFFICIENTS, "coefficients", "FILE", "of the estimates (default: those that are installed)"},
    {DP_TAKES_TABLE, 'h', "noheader", NULL, "no header line"},
    {DP_TAKES_TABLE, 'o', "format", "FORMAT", "columns: \"%.10i %8T\" or \"jobid,state:8\" (env DYNPIPE_FORMAT)"},
    {DP_TAKES_JSON, OPT_JSON, "json", NULL, "print one JSON document"},
    {DP_TAKES_SCREEN, OPT_ASCII, "ascii", NULL, "draw with ASCII, whatever the locale"},
    {DP_TAKES_SCREEN, OPT_COLOR, "color", "WHEN", "auto, always or never (env NO_COLOR)"},
    {DP_TAKES_FROM, OPT_FROM, "from", "FILE", "read a saved JSON document instead of asking ('-': stdin)"},
    {DP_TAKES_DAEMON, OPT_NODE, "node", "NODE", "ask the daemon of this node, over TCP with munge"},
    {DP_TAKES_DAEMON, OPT_SOCKET, "socket", "PATH", "socket of the local daemon (env DYNPIPE_SOCKET)"},
    {DP_TAKES_DAEMON, OPT_CONFIG, "config", "FILE", "configuration to read (env DYNPIPE_CONF)"},
    {0, OPT_HELP, "help", NULL, "print this text"},
    {0, 'V', "version", NULL, "print the version"},
};
enum { N_ENTRIES = sizeof entries / sizeof *entries };

static bool is_taken(const struct option_entry *e, unsigned takes)
{
    return e->takes == 0 || (e->takes & takes);
}

static void print_options(unsigned takes)
{
    for (size_t i = 0; i < N_ENTRIES; i++) {
        const struct option_entry *e = &entries[i];
        char left[64];

        if (!is_taken(e, takes))
            continue;
        snprintf(left, sizeof left, "%s%c%s --%s%s%s", e->value < 256 ? "-" : " ",
                 e->value < 256 ? e->value : ' ', e->value < 256 ? "," : " ", e->name, e->argument ? "=" : "",
                 e->argument ? e->argument : "");
        printf("  %-24s %s\n", left, e->help);
    }
}

static void print_help(void)
{
    printf("Usage: dynpipe COMMAND [OPTION...]\n\n"
           "Look at and steer runs that DynPipe trains: `sbatch --dynpipe ...`.\n\nCommands:\n");
    for (const struct dp_command *c = dp_commands; c->name; c++)
        printf("  %-10s %s\n", c->name, c->summary);
    printf("\n`dynpipe COMMAND --help` tells more; so does dynpipe(1).\n"
           "Exit codes: 0 ok, 1 error, 2 wrong usage, 3 refused.\n");
}

static void print_command_help(const struct dp_command *c)
{
    printf("Usage: dynpipe %s %s\n\n%s\n\nOptions:\n", c->name, c->synopsis, c->help);
    print_options(c->takes);
}

static bool is_help(const char *value)
{
    return value && !strcmp(value, "help");
}

/* simulate --balance=help, --schedule=help, --scheduler=help, --scheme=help and --scheme=NAME,help need no file. */
static bool lists_names(const struct dp_cli *cli)
{
    const char *scheme = cli->simulate.scheme, *comma = scheme ? strchr(scheme, ',') : NULL;

    return is_help(cli->simulate.balance) || is_help(cli->simulate.schedule) || is_help(cli->simulate.scheduler) || is_help(scheme) ||
           (comma && is_help(comma + 1));
}

static enum dp_parsed wrong(const char *command, const char *fmt, const char *a, const char *b)
{
    char clean[256];

    fprintf(stderr, "dynpipe%s%s: ", command ? " " : "", command ? command : "");
    fprintf(stderr, fmt, dp_text_clean(clean, sizeof clean, a), b);
    fprintf(stderr, "\nTry `dynpipe%s%s --help`.\n", command ? " " : "", command ? command : "");
    return DP_PARSED_WRONG;
}

static const struct dp_command *find_command(const char *name)
{
    for (const struct dp_command *c = dp_commands; c->name; c++) {
        if (!strcmp(c->name, name))
            return c;
    }
    return NULL;
}

static enum dp_parsed unknown_command(const char *name)
{
    const struct dp_command *best = dp_commands;

    for (const struct dp_command *c = dp_commands; c->name; c++) {
        if (dp_text_distance(name, c->name) < dp_text_distance(name, best->name))
            best = c;
    }
    if (dp_text_distance(name, best->name) > 3)
        return wrong(NULL, "unknown command '%s'%s", name, "");
    return wrong(NULL, "unknown command '%s'; did you mean '%s'?", name, best->name);
}

static enum dp_parsed unknown_option(const struct dp_command *c, const char *given)
{
    char name[64];
    const struct option_entry *best = NULL;

    if (strncmp(given, "--", 2) != 0)
        return wrong(c->name, "unknown option '%s'%s", given, "");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given + 2, "="), given + 2);
    for (size_t i = 0; i < N_ENTRIES; i++) {
        if (!strcmp(name, entries[i].name))
            return wrong(c->name, "--%s does not apply to this command%s", name, "");
        if (is_taken(&entries[i], c->takes) &&
            (!best || dp_text_distance(name, entries[i].name) < dp_text_distance(name, best->name)))
            best = &entries[i];
    }
    if (!best || dp_text_distance(name, best->name) > 3)
        return wrong(c->name, "unknown option '--%s'%s", name, "");
    return wrong(c->name, "unknown option '--%s'; did you mean '--%s'?", name, best->name);
}

/* A number of the whole text within [low, high]. returns: 0, or -1. */
static int parse_number(const char *text, double low, double high, double *out)
{
    char *end;

    errno = 0;
    *out = strtod(text, &end);
    return errno || end == text || *end || !(*out >= low && *out <= high) ? -1 : 0;
}

static enum dp_parsed take_number(int value, const char *arg, struct dp_cli *out)
{
    double v;

    if (value == OPT_INTERVAL) {
        if (parse_number(arg, 0.05, 3600, &out->interval_s) < 0)
            return wrong(out->command->name, "--interval=%s: expected 0.05 to 3600 seconds%s", arg, "");
        return DP_PARSED_RUN;
    }
    if (parse_number(arg, 1, 100000, &v) < 0 || v != floor(v))
        return wrong(out->command->name, "--number=%s: expected a number of at least 1%s", arg, "");
    out->count = (uint32_t)v;
    return DP_PARSED_RUN;
}

/* The last one counts, in whichever form. */
static enum dp_parsed take_job(const char *arg, struct dp_cli *out)
{
    bool is_member = dp_job_is_member(arg);
    double v;

    if (!is_member && (parse_number(arg, 1, 4294967294.0, &v) < 0 || v != floor(v)))
        return wrong(out->command->name, "--job=%s: expected a Slurm job id, as 12, 12_3 or 12+1%s", arg, "");
    out->job_member = is_member ? arg : NULL;
    out->job_id = is_member ? 0 : (uint32_t)v;
    return DP_PARSED_RUN;
}

/* A whole number from 1. */
static enum dp_parsed take_whole(const char *option, const char *arg, double most, struct dp_cli *out, uint64_t *value)
{
    char wanted[96];
    double v;

    snprintf(wanted, sizeof wanted, "--%s=%%s: expected a number from 1 to %.0f%%s", option, most);
    if (parse_number(arg, 1, most, &v) < 0 || v != floor(v))
        return wrong(out->command->name, wanted, arg, "");
    *value = (uint64_t)v;
    return DP_PARSED_RUN;
}

static enum dp_parsed take_whole32(const char *option, const char *arg, struct dp_cli *out, uint32_t *value)
{
    uint64_t v = *value;
    enum dp_parsed p = take_whole(option, arg, 65536, out, &v);

    *value = (uint32_t)v;
    return p;
}

static enum dp_parsed take_threads(const char *arg, struct dp_cli *out)
{
    uint64_t v = 0;
    enum dp_parsed p = take_whole("threads", arg, 64, out, &v);

    out->learn.threads = (uint32_t)v;
    return p;
}

int dp_cli_devices(const char *text, uint32_t most, uint32_t devices[2])
{
    for (int n = 0; n < 2;) {
        unsigned long v;
        char *end;

        if (*text < '0' || *text > '9')
            return -1;
        v = strtoul(text, &end, 10);
        if (v < 1 || v > most)
            return -1;
        devices[n++] = (uint32_t)v;
        if (!*end)
            return n;
        if (*end != 'x')
            return -1;
        text = end + 1;
    }
    return -1;
}

static enum dp_parsed take_devices(const char *arg, struct dp_cli *out)
{
    uint32_t n[2] = {0, 1};
    int levels = dp_cli_devices(arg, 65536, n);

    if (levels < 0 || (uint64_t)n[0] * n[1] > 65536)
        return wrong(out->command->name, "--devices=%s: expected a number from 1 to 65536, or 4x2 for 2 nodes of 4%s", arg, "");
    out->simulate.devices = n[0] * n[1];
    out->simulate.devices_per_node = levels > 1 ? n[0] : 0;
    return DP_PARSED_RUN;
}

static enum dp_parsed take_bandwidth(const char *arg, struct dp_cli *out)
{
    if (parse_number(arg, 0.001, 1e6, &out->simulate.gb_per_s) < 0)
        return wrong(out->command->name, "--bandwidth=%s: expected a number of GB/s from 0.001 to 1000000%s", arg, "");
    return DP_PARSED_RUN;
}

static enum dp_parsed take_color(const char *arg, struct dp_cli *out)
{
    if (!strcmp(arg, "always"))
        out->color = true;
    else if (!strcmp(arg, "never"))
        out->color = false;
    else if (strcmp(arg, "auto") != 0)
        return wrong(out->command->name, "--color=%s: expected auto, always or never%s", arg, "");
    return DP_PARSED_RUN;
}

static enum dp_parsed take(int value, const char *arg, struct dp_cli *out)
{
    switch (value) {
    case 'j': return take_job(arg, out);
    case 'n': case OPT_INTERVAL: return take_number(value, arg, out);
    case OPT_COLOR: return take_color(arg, out);
    case OPT_STAGES: return take_devices(arg, out);
    case OPT_CHUNKS: return take_whole32("chunks", arg, out, &out->simulate.chunks);
    case OPT_MICROBATCHES: return take_whole32("microbatches", arg, out, &out->simulate.microbatches);
    case OPT_REPLICAS: return take_whole32("replicas", arg, out, &out->simulate.replicas);
    case OPT_ITERATIONS: return take_whole("iterations", arg, 1e9, out, &out->simulate.iterations);
    case OPT_DRAW: return take_whole("draw", arg, 1e9, out, &out->simulate.draw);
    case OPT_GRAPH_BANDWIDTH: return take_bandwidth(arg, out);
    case OPT_SCHEDULE: out->simulate.schedule = arg; break;
    case OPT_BALANCE: out->simulate.balance = arg; break;
    case OPT_SCHEME: out->simulate.scheme = arg; break;
    case OPT_ADVISE: out->simulate.advise = true; break;
    case OPT_ARGUMENTS: out->arguments = arg; break;
    case OPT_CHROME_TRACE: out->simulate.chrome_trace = arg; break;
    case OPT_SVG: out->svg = arg; break;
    case OPT_CLUSTER: out->simulate.cluster = arg; break;
    case OPT_SCHEDULER: out->simulate.scheduler = arg; break;
    case OPT_SEED: return take_whole("seed", arg, 9e15, out, &out->simulate.seed);
    case OPT_SAVE_SWF: out->simulate.save_swf = arg; break;
    case 'a': out->all = true; break;
    case 'h': out->no_header = true; break;
    case 'o': *(out->command->takes & DP_TAKES_LEARN ? &out->learn.output : &out->format) = arg; break;
    case OPT_METHOD: out->learn.method = arg; break;
    case OPT_THREADS: return take_threads(arg, out);
    case OPT_JSON: out->json = true; break;
    case OPT_SOCKET: out->socket = arg; break;
    case OPT_NODE: out->node = arg; break;
    case OPT_NODES: out->nodes = arg; break;
    case OPT_CONFIG: out->config = arg; break;
    case OPT_FROM: out->from = arg; break;
    case OPT_SET: out->set = arg; break;
    case OPT_MEGATRON: out->megatron = true; break;
    case OPT_DEVICES: out->devices = arg; break;
    case OPT_BANDWIDTH: out->bandwidth = arg; break;
    case OPT_LATENCY: out->latency = arg; break;
    case OPT_MEMORY: out->memory = arg; break;
    case OPT_CPUS: out->cpus = arg; break;
    case OPT_SPEED: out->speed = arg; break;
    case OPT_ALGORITHM: out->algorithm = arg; break;
    case OPT_POLICY: out->policy = arg; break;
    case OPT_STRAIGHT: out->straight = true; break;
    case OPT_TRADE: out->trade = true; break;
    case OPT_OBJECTIVE: out->objective = arg; break;
    case OPT_TIME_LIMIT: out->time_limit = arg; break;
    case OPT_COSTS: out->costs = arg; break;
    case OPT_DEVICE: out->device = arg; break;
    case OPT_EVALUATE: out->learn.evaluate = arg; break;
    case OPT_WEIGHTS: out->weights = arg; break;
    case OPT_VIRTUAL_WORKERS: out->virtual_workers = arg; break;
    case OPT_COEFFICIENTS: out->coefficients = arg; break;
    case OPT_WAIT: out->wait = true; break;
    case OPT_PLAIN: out->plain = true; break;
    case OPT_ASCII: out->ascii = true; break;
    case OPT_HELP: print_command_help(out->command); return DP_PARSED_DONE;
    case 'V': printf("dynpipe %s\n", PACKAGE_VERSION); return DP_PARSED_DONE;
    }
    return DP_PARSED_RUN;
}

/* The options of one subcommand in the forms that getopt_long() wants. */
static void make_getopt(unsigned takes, struct option *longs, char *shorts)
{
    size_t n = 0, s = 0;

    shorts[s++] = ':';
    for (size_t i = 0; i < N_ENTRIES; i++) {
        const struct option_entry *e = &entries[i];

        if (!is_taken(e, takes))
            continue;
        longs[n++] = (struct option){e->name, e->argument ? required_argument : no_argument, NULL, e->value};
        if (e->value < 256) {
            shorts[s++] = (char)e->value;
            if (e->argument)
                shorts[s++] = ':';
        }
    }
    longs[n] = (struct option){0};
    shorts[s] = '\0';
}

static enum dp_parsed parse_command_options(int argc, char **argv, struct dp_cli *out)
{
    struct option longs[N_ENTRIES + 1];
    char shorts[2 * N_ENTRIES + 2];
    int value;

    make_getopt(out->command->takes, longs, shorts);
    opterr = 0;
    while ((value = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        enum dp_parsed p;
        char letter[3] = {'-', (char)optopt, '\0'};

        if (value == ':')
            return wrong(out->command->name, "%s requires an argument%s", argv[optind - 1], "");
        if (value == '?') /* an unknown letter may stand inside of a word like -jq */
            return unknown_option(out->command, optopt > 0 && optopt < 256 ? letter : argv[optind - 1]);
        p = take(value, optarg, out);
        if (p != DP_PARSED_RUN)
            return p;
    }
    if (optind < argc && out->command->takes & DP_TAKES_FILE)
        out->file = argv[optind++];
    if (out->command->takes & DP_TAKES_FILES) {
        out->files = argv + optind;
        out->n_files = (uint32_t)(argc - optind);
        if (out->n_files || out->simulate.cluster || lists_names(out) || out->command->takes & DP_TAKES_LEARN) /* which looks itself */
            return DP_PARSED_RUN;
        return wrong(out->command->name, "%sno file given%s", "", "");
    }
    if (optind < argc)
        return wrong(out->command->name, "unexpected argument '%s'%s", argv[optind], "");
    return DP_PARSED_RUN;
}

static void set_defaults(struct dp_cli *out)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

    memset(out, 0, sizeof *out);
    out->interval_s = 1;
    out->format = getenv("DYNPIPE_FORMAT");
    if (out->format && !*out->format)
        out->format = NULL;
    out->color = isatty(STDOUT_FILENO) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

enum dp_parsed dp_cli_parse(int argc, char **argv, struct dp_cli *out)
{
    const char *first = argc > 1 ? argv[1] : "--help";

    set_defaults(out);
    if (argc < 2) {
        print_help();
        return DP_PARSED_WRONG;
    }
    if (!strcmp(first, "--version") || !strcmp(first, "-V")) {
        printf("dynpipe %s\n", PACKAGE_VERSION);
        return DP_PARSED_DONE;
    }
    if (!strcmp(first, "--help") || (!strcmp(first, "help") && argc == 2)) {
        print_help();
        return DP_PARSED_DONE;
    }
    if (!strcmp(first, "help")) {
        out->command = find_command(argv[2]);
        if (!out->command)
            return unknown_command(argv[2]);
        print_command_help(out->command);
        return DP_PARSED_DONE;
    }
    if (*first == '-')
        return wrong(NULL, "'%s' before the command; the command comes first%s", first, "");
    out->command = find_command(first);
    if (!out->command)
        return unknown_command(first);
    return parse_command_options(argc - 1, argv + 1, out);
}
