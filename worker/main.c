/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe-worker: arguments, start-up, shut-down. Everything between is in trainer.c.
 *
 * Errors that all workers share (configuration, data, checkpoint) are printed once; fail() has the
 * rules for the others. */
#include <config.h> /* of the build; worker/model/train_config.h is another one */

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"
#include "common/log.h"
#include "common/stdout.h"
#include "kernels/waiting.h"
#include "worker/model/data.h"
#include "worker/net/pin.h"
#include "worker/scheme/scheme.h"
#include "worker/train/start/preflight.h"
#include "worker/train/trainer.h"
#include "worker/train/signals.h"

enum { EXIT_DONE = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_SAVED = 75 };

static const char usage[] =
    "Usage: dynpipe-worker [OPTION...] CONFIG [section.key=value ...]\n"
    "\n"
    "Trains the model of CONFIG, alone or as one of the workers that srun or mpirun started. They find each other\n"
    "through the daemons (in a job with --dynpipe) or PMIx (srun --mpi=pmix, mpirun): pipeline.wireup.\n"
    "\n"
    "  --check-config   read CONFIG, the overrides and the data, say what is wrong, train nothing\n"
    "  --print-config   print every key with its meaning, range and default\n"
    "  -q, --quiet      only warnings and errors\n"
    "  -h, --help       this text\n"
    "  -V, --version    version\n"
    "\n"
    "Environment: DYNPIPE_SOCKET names the socket of this node's dynpiped; without it (or without the\n"
    "daemon) the layout stays as it is. UCX_* variables set up the data plane; with one worker per node\n"
    "and plain TCP between nodes, UCX_RNDV_THRESH=inf UCX_TCP_SNDBUF=4m lets a worker compute while its\n"
    "tensors travel.\n"
    "\n"
    "Signals, to any worker: SIGUSR1 saves a checkpoint and goes on; SIGTERM and SIGINT save and stop; a\n"
    "second SIGINT ends it at once. Before its job's time limit a run saves and stops by itself.\n"
    "\n"
    "Exit status: 0 completed, or this worker was released; 1 error; 2 usage or configuration;\n"
    "75 stopped after saving, by a signal or at the end of the job's time: start it again to go on\n"
    "(checkpoint.resume = \"auto\").\n";

struct options {
    bool check_only, print, quiet;
    const char *config;
    int n_overrides;
    char **overrides;
};

/* returns: the exit status of a worker that was only asked to print something. */
static int end_of_print(void)
{
    struct dp_err err;

    if (dp_stdout_flush(&err) == 0)
        return EXIT_DONE;
    fprintf(stderr, "dynpipe-worker: %s\n", err.text);
    return EXIT_ERROR;
}

/* returns: -1 to go on, or an exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"check-config", no_argument, NULL, 'c'}, {"print-config", no_argument, NULL, 'p'},
        {"quiet", no_argument, NULL, 'q'},        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0},
    };
    int opt;

    while ((opt = getopt_long(argc, argv, "qhV", longs, NULL)) != -1) {
        switch (opt) {
        case 'c': o->check_only = true; break;
        case 'p': o->print = true; break;
        case 'q': o->quiet = true; break;
        case 'h': fputs(usage, stdout); return end_of_print();
        case 'V': puts("dynpipe-worker " PACKAGE_VERSION); return end_of_print();
        default: fputs("Try dynpipe-worker --help.\n", stderr); return EXIT_USAGE;
        }
    }
    if (o->print) {
        dp_conf_print(dp_train_config_keys(), stdout);
        return end_of_print();
    }
    if (optind == argc) {
        fputs("dynpipe-worker: no configuration file\nTry dynpipe-worker --help.\n", stderr);
        return EXIT_USAGE;
    }
    o->config = argv[optind];
    o->n_overrides = argc - optind - 1;
    o->overrides = argv + optind + 1;
    return -1;
}

/* rc, err: what reading the configuration gave. */
static int end_of_check(const struct dp_train_config *config, int rc, struct dp_err *err)
{
    uint64_t step;

    if (rc < 0 || dp_preflight(config, &step, err) < 0) {
        fprintf(stderr, "dynpipe-worker: %s\n", err->text);
        return EXIT_USAGE;
    }
    if (step)
        printf("configuration is fine; it goes on from step %llu of %lld\n", (unsigned long long)step,
               (long long)config->train.steps);
    else
        puts("configuration is fine");
    return end_of_print();
}

/* Transport between several workers; none for one. */
static int meet(struct dp_wireup *w, struct dp_transport **out, struct dp_err *err)
{
    *out = NULL;
    if (w->n_workers == 1)
        return 0;
    *out = dp_transport_create(w->rank, w->n_workers, err);
    return *out ? dp_wireup_exchange(w, *out, err) : -1;
}

/* The others may wait for this worker, or for one that never began, until they are ended. */
static int fail_to_meet(struct dp_wireup *w, const struct dp_err *err)
{
    if (err->text[0]) /* empty: another worker says it */
        dp_error("worker %u of %u: %s", w->rank, w->n_workers, err->text);
    dp_wireup_abort(w, err->text[0] && err->code != DP_EAUTH);
    return EXIT_ERROR;
}

/* What the others do not know is said by whom it happened to, and PMIx is not told: a process that
 * ends without PMIx_Finalize makes the launcher end the others. (Without PMIx they see that it is gone.) What all
 * know is said by worker 0 alone, before any of them ends: a launcher may kill the rest when the first one fails. */
static int fail(struct dp_wireup *w, struct dp_transport *t, enum dp_run_outcome end, const struct dp_err *err)
{
    bool is_common = end == DP_RUN_REFUSED || end == DP_RUN_DIVERGED;

    if (w->n_workers == 1 || (is_common && w->rank == 0))
        dp_error("%s", err->text);
    else if (!is_common)
        dp_error("worker %u of %u: %s%s", w->rank, w->n_workers, err->text,
                 err->code == DP_EGONE ? "; the run ends here, start it again to go on from its last checkpoint" : "");
    if (end == DP_RUN_REFUSED)
        dp_wireup_barrier(w, t);
    if (is_common)
        dp_wireup_release(w);
    return EXIT_ERROR;
}

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* nowhere left to say it */
}

/* The mapped text is cut short in the instant between the check of its length and its use. Anything else
 * that raises SIGBUS is a fault of ours and dumps core. */
static void die_of_lost_text(int number, siginfo_t *info, void *context)
{
    const char *path = dp_data_path_at(info->si_addr);

    (void)context;
    if (!path) {
        signal(number, SIG_DFL); /* the instruction is tried again */
        return;
    }
    put("dynpipe-worker error: ");
    put(path);
    put(": cut short while the run used it; put it back and start again from the last checkpoint\n");
    _exit(EXIT_ERROR);
}

static void catch_lost_text(void)
{
    struct sigaction action = {.sa_sigaction = die_of_lost_text, .sa_flags = SA_SIGINFO};

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

static int train(const struct dp_train_config *config, struct dp_wireup *w, struct dp_err *err)
{
    struct dp_transport *transport;
    enum dp_run_outcome end = DP_RUN_FAILED;
    uint32_t local_rank = 0, n_local = 1;
    int rc;

    if (meet(w, &transport, err) < 0)
        return fail_to_meet(w, err);
    if (transport)
        local_rank = dp_transport_local_rank(transport, &n_local);
    /* Which cores of the node a slice's job has only Slurm knows: where it has bound no job, all would take the first one. */
    rc = config->pipeline.pin && !w->is_slice ? dp_pin(local_rank, n_local, (uint32_t)config->pipeline.threads, err) : 0;
    if (rc == 0) {
        struct dp_trainer_args args = {.config = config, .wireup = w, .transport = transport, .socket = getenv("DYNPIPE_SOCKET")};

        rc = dp_trainer_run(&args, &end, err);
    }
    if (rc < 0)
        rc = fail(w, transport, end, err);
    dp_transport_destroy(transport);
    if (rc != 0)
        return rc;
    dp_wireup_release(w);
    return end == DP_RUN_STOPPED ? EXIT_SAVED : EXIT_DONE;
}

/* A wrong configuration, most often the same for all: they meet only to let one print it. */
static int refuse(const struct dp_err *why)
{
    struct dp_wireup w = {0};
    struct dp_err err = {0};

    if (dp_wireup_is_slice()) {
        dp_error("%s", why->text); /* each in its own job's output; who is not there is not waited for long */
        return EXIT_USAGE;
    }
    if (dp_wireup_init(&w, "auto", getenv("DYNPIPE_SOCKET"), &err) < 0)
        w.rank = 0;
    if (w.rank == 0)
        dp_error("%s", why->text);
    if (dp_wireup_refuse(&w, why->text) && w.rank > 0)
        dp_error("worker %u of %u: %s", w.rank, w.n_workers, why->text);
    dp_wireup_release(&w);
    return EXIT_USAGE;
}

static int load(const struct options *o, struct dp_train_config *config, struct dp_err *err)
{
    if (dp_train_config_load(o->config, o->n_overrides, o->overrides, config, err) < 0)
        return -1;
    return dp_schemes_check(config, err) < 0 ? dp_err_prefix(err, "%s", o->config) : 0;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    static struct dp_train_config config;
    struct dp_wireup w = {0};
    struct dp_err err = {0};
    int status = parse_options(argc, argv, &o), rc;

    if (status >= 0)
        return status;
    dp_log_setup("dynpipe-worker", o.quiet ? DP_LOG_WARN : DP_LOG_INFO);
    rc = load(&o, &config, &err);
    if (o.check_only)
        return end_of_check(&config, rc, &err);
    if (rc < 0)
        return refuse(&err);
    dp_wait_briefly((long)config.pipeline.threads, argv);
    catch_lost_text();
    if (dp_signals_catch(&err) < 0 || dp_wireup_init(&w, config.pipeline.wireup, getenv("DYNPIPE_SOCKET"), &err) < 0) {
        dp_error("%s", err.text);
        return EXIT_ERROR;
    }
    return train(&config, &w, &err);
}
