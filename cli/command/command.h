/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command line said, and the table of subcommands. */
#ifndef DP_CLI_COMMAND_COMMAND_H
#define DP_CLI_COMMAND_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum dp_exit {
    DP_EXIT_OK = 0,
    DP_EXIT_ERROR = 1,   /* no daemon, no such run, a check failed */
    DP_EXIT_USAGE = 2,   /* the command line is wrong */
    DP_EXIT_REFUSED = 3, /* the daemon said no: not your run, or not now */
};

/* Options that a subcommand takes besides --help and --version. */
enum dp_takes {
    DP_TAKES_JOB = 1u << 0,      /* -j */
    DP_TAKES_TABLE = 1u << 1,    /* -h, -o */
    DP_TAKES_JSON = 1u << 2,     /* --json */
    DP_TAKES_DAEMON = 1u << 3,   /* --socket, --node, --config */
    DP_TAKES_FROM = 1u << 4,     /* --from */
    DP_TAKES_SCREEN = 1u << 5,   /* --ascii, --color */
    DP_TAKES_INTERVAL = 1u << 6, /* --interval, --wait, --plain */
    DP_TAKES_SET = 1u << 7,      /* --set, --megatron */
    DP_TAKES_ALL = 1u << 8,      /* -a */
    DP_TAKES_COUNT = 1u << 9,    /* -n */
    DP_TAKES_FILE = 1u << 10,    /* one argument that is no option */
    DP_TAKES_PLAN = 1u << 11,    /* --devices, --bandwidth, --latency, --memory,
                                    --cpus, --speed, --algorithm, --straight, --trade, --objective, --time-limit, --costs, --device,
                                    --coefficients, --weights, --virtual-workers */
    DP_TAKES_DETAIL = 1u << 12,  /* -a, as DP_TAKES_ALL, of what is printed */
    DP_TAKES_FILES = 1u << 13,   /* one such argument or more */
    DP_TAKES_NODES = 1u << 15,   /* --nodes, -j of what is looked at */
    DP_TAKES_SIMULATE = 1u << 14, /* what changes a simulated run, and its drawings */
    DP_TAKES_SVG = 1u << 16,      /* --svg of a real run */
    DP_TAKES_LEARN = 1u << 17,    /* -o of a file, --seed, --iterations, --threads, --method, --evaluate; files with it */
};

/* Options of simulate; 0 and NULL: not given. */
struct dp_cli_simulate {
    bool advise;
    const char *schedule, *balance, *scheme, *chrome_trace;
    const char *cluster, *scheduler, *save_swf;
    uint64_t seed;
    uint32_t devices, chunks, microbatches, replicas;
    uint32_t devices_per_node; /* of --devices=4x2; else 0 */
    double gb_per_s; /* of a profile's transfers */
    uint64_t iterations, draw; /* draw: iteration of the drawings and of the table of stages */
};

/* Options of learn, beside seed and iterations of simulate; 0 and NULL: not given. */
struct dp_cli_learn {
    const char *output, *method, *evaluate;
    uint32_t threads;
};

struct dp_cli {
    const struct dp_command *command;
    uint32_t job_id;        /* 0: not given */
    const char *job_member; /* --job=12_3 or 12+1, whose own id job_id becomes; NULL: not such a one */
    bool json, no_header, all, ascii, wait, plain;
    bool straight, trade;
    bool megatron;
    bool color; /* decided: --color, NO_COLOR, and whether stdout is a terminal */
    const char *format, *socket, *node, *config, *from, *set, *nodes; /* NULL: not given */
    const char *file, *devices, *bandwidth, *latency, *memory, *cpus, *speed, *algorithm, *policy, *time_limit; /* NULL: not given */
    const char *objective, *costs, *device, *coefficients, *weights, *virtual_workers; /* of plan; NULL: not given */
    const char *arguments; /* of a policy that is a file; NULL: not given */
    const char *svg;       /* file for a picture; NULL: not given */
    double interval_s;
    uint32_t count; /* -n; 0: the subcommand's default */
    char **files;     /* borrowed from argv */
    uint32_t n_files;
    struct dp_cli_simulate simulate;
    struct dp_cli_learn learn;
};

struct dp_command {
    const char *name, *summary;
    const char *synopsis; /* after the name */
    const char *help;     /* paragraphs of --help */
    unsigned takes;       /* enum dp_takes */
    enum dp_exit (*run)(const struct dp_cli *cli);
};

/* Ends with an entry whose name is NULL. */
extern const struct dp_command dp_commands[];

/* What each command does once its command line has been read and found to be complete: it prints its answer, or why
 * there is none, and returns the exit status of `dynpipe`. */
enum dp_exit dp_cmd_status(const struct dp_cli *cli);
enum dp_exit dp_cmd_watch(const struct dp_cli *cli);
enum dp_exit dp_cmd_explain(const struct dp_cli *cli);
enum dp_exit dp_cmd_layout(const struct dp_cli *cli);
enum dp_exit dp_cmd_control(const struct dp_cli *cli); /* pause, resume, save */
enum dp_exit dp_cmd_plan(const struct dp_cli *cli);
enum dp_exit dp_cmd_learn(const struct dp_cli *cli);
enum dp_exit dp_cmd_report(const struct dp_cli *cli);
enum dp_exit dp_cmd_check(const struct dp_cli *cli);
enum dp_exit dp_cmd_simulate(const struct dp_cli *cli);

/* Print "dynpipe: text" on stderr or, with --json, a document with errors[] on stdout.
 * returns: DP_EXIT_REFUSED where err says that it is not allowed, else DP_EXIT_ERROR. */
enum dp_exit dp_cmd_fail(const struct dp_cli *cli, const struct dp_err *err);

#endif
