/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe: look at and steer the runs that DynPipe trains. This file only dispatches; each subcommand
 * has a file of its own, and cli/command/options.c reads the command line. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/command/command.h"
#include "cli/command/options.h"
#include "cli/command/slurm_job.h"
#include "cli/show/json.h"
#include "cli/show/text.h"
#include "common/stdout.h"

#define RUN_OPTIONS (DP_TAKES_JOB | DP_TAKES_JSON | DP_TAKES_DAEMON)

const struct dp_command dp_commands[] = {
    {"status", "runs and how they are doing; one run in detail with -j", "[-j JOB | -a] [OPTION...]",
     "One line for each run; with a job (-j, or $SLURM_JOB_ID) everything about it: workers with their\n"
     "load, layout, loss, sparsity, devices held, the last decision.\n\n"
     "Columns of -o: jobid name user state mode policy node step steps loss bpb sparsity devices speed\n"
     "gain layout epoch, with the letters i j u T m p N s S l b P D t g L e.",
     RUN_OPTIONS | DP_TAKES_TABLE | DP_TAKES_FROM | DP_TAKES_SCREEN | DP_TAKES_ALL, dp_cmd_status},
    {"watch", "live view of one run", "[-j JOB] [OPTION...]",
     "Loads as bars, layout, loss, sparsity, devices held over time, and what was decided and why.\n"
     "Keys: q quits, the arrows scroll the workers. Where stdout is not a terminal, one line for each\n"
     "change. Ends by itself, with 0, when the run ends.",
     RUN_OPTIONS | DP_TAKES_FROM | DP_TAKES_SCREEN | DP_TAKES_INTERVAL, dp_cmd_watch},
    {"explain", "why layers moved, stayed, or a device was not given back", "[-j JOB] [-n N] [OPTION...]",
     "What each number of nodes would take and save until the end, the last decisions with the numbers behind\n"
     "them, the hand-overs and the state of each node.",
     RUN_OPTIONS | DP_TAKES_FROM | DP_TAKES_SCREEN | DP_TAKES_COUNT, dp_cmd_explain},
    {"layout", "show the layout, or ask for one", "[-j JOB] [--megatron | --set LAYOUT] [OPTION...]",
     "A layout has one field for each worker, in order: \"0-3|4-9|-|x\" says that worker 0 owns the\n"
     "layers 0 to 3, worker 1 the layers 4 to 9, worker 2 owns none and worker 3 left. With --set the\n"
     "run hands layers over at the next boundary; the policy may move them again later (see pause).\n"
     "LAYOUT may also be a layout of Megatron-Core: \"Et*3|t*5L||\" has as many layers on as many workers.",
     RUN_OPTIONS | DP_TAKES_FROM | DP_TAKES_SET, dp_cmd_layout},
    {"pause", "let a run keep its layout: no moves, no releases", "[-j JOB] [OPTION...]",
     "Training goes on. What is under way is finished first.", RUN_OPTIONS, dp_cmd_control},
    {"resume", "end a pause", "[-j JOB] [OPTION...]",
     "The policy decides again. Packing that a missed promise has stopped may go on, too.", RUN_OPTIONS,
     dp_cmd_control},
    {"save", "write a checkpoint at the next step", "[-j JOB] [OPTION...]",
     "The run writes a checkpoint into its own checkpoint folder and goes on.", RUN_OPTIONS,
     dp_cmd_control},
    {"report", "what a run gave back, and what that cost", "[-j JOB] [OPTION...]",
     "Time and device-seconds beside those of a fixed layout and of all devices balanced, at equal sparsity; what\n"
     "packing gains, and what pruning gains by itself; the pause of every hand-over and how long releases took.",
     RUN_OPTIONS | DP_TAKES_FROM | DP_TAKES_SCREEN | DP_TAKES_SVG, dp_cmd_report},
    {"plan", "where to cut a network that is a graph", "FILE [--devices=N] [OPTION...]",
     "FILE is a layer graph: a PipeDream profile (graph.txt), dnn-partitioning's or Piper's JSON; '-' is\n"
     "stdin. Prints which nodes go to which device, the load of each, the throughput to expect, a lower\n"
     "bound, and why.\n\n"
     "Algorithms: exact (max-load over all cuts of the graph), line (over cuts of single orders of it;\n"
     "where there are too many), hierarchical (PipeDream: stages with replicas, networks with levels;\n"
     "profiles only, devices alike). auto takes the first that applies.",
     DP_TAKES_FILE | DP_TAKES_PLAN | DP_TAKES_JSON | DP_TAKES_SCREEN | DP_TAKES_DETAIL, dp_cmd_plan},
    {"learn", "networks that make orders of graphs, for plan --weights", "-o FILE [OPTION...] | --evaluate=FILE GRAPH...",
     "Trains small networks that put the nodes of a graph into an order, on generated graphs, and writes those that\n"
     "are best together, random rules among them. The same seed gives the same file, byte for byte. Says on stderr\n"
     "how far it is; 1000 iterations take some minutes of a core. With --method=drl-pp the network places nodes itself,\n"
     "for plan --algorithm=drl-pp.\n\n"
     "--evaluate=FILE GRAPH... plans every graph for 4, 8 and 16 devices, a profile at 1.25, 5 and 12 GB/s each, by orders\n"
     "of the file's networks, and in the same CPU time by random rules, by moves alone, by annealing, by a genetic\n"
     "algorithm and by networks whose weights were shuffled; and says whether what was learned is better.",
     DP_TAKES_LEARN | DP_TAKES_FILES, dp_cmd_learn},
    {"check", "is this cluster set up right?", "[-j JOB | --nodes=LIST] [OPTION...]",
     "Looks at Slurm's configuration, the plugin, munge, PMIx, dynpipe.conf and the daemon of this machine, then\n"
     "asks the daemon of every node to look at its own: the plugin as slurmd there loads it, whether its\n"
     "journals can be written, munge, the clock, and the way to the node that coordinates. Every line is ok,\n"
     "warn or FAIL, with what to do. Exit code 1 when a line is FAIL.",
     DP_TAKES_NODES | DP_TAKES_JSON | DP_TAKES_DAEMON | DP_TAKES_TABLE | DP_TAKES_SCREEN | DP_TAKES_ALL, dp_cmd_check},
    {"simulate", "predict a training run, or what a cluster gains", "[--cluster=FILE] [OPTION...] FILE...",
     "FILE is a model description with a cost table, a graph as `dynpipe plan` reads it, or the traces of\n"
     "all workers of a recorded run (output.trace of dynpipe-worker); doc/simulator.md describes them. One\n"
     "line for the iterations between two events, then the stages of one iteration, then the whole run beside\n"
     "its first layout kept to the end, and what every number of devices would take and save.\n\n"
     "With --advise: how many devices to ask for, how long each number of them is as fast as all were at the start, and\n"
     "the layouts as Megatron, DeepSpeed and torch.distributed.pipelining take them.\n\n"
     "With --cluster: what a cluster gains when training jobs give nodes back. Its file describes nodes, jobs\n"
     "and how the need of DynPipe jobs falls; FILE may be a workload file (SWF) to take the jobs from instead.\n"
     "Waiting times, utilisation and makespan, without and with DynPipe; doc/cluster.md describes the file.\n\n"
     "Columns of -o: iterations density devices held layout ms predicted bound measured error lost bubble\n"
     "bubbles tokens perdevice gpus memory pause moved, with the letters i d D H l t P b m e L u U T g G M p v.\n"
     "With --advise: devices first last time later gpus more fast from why, with the letters D f l t L G M F r w.\n"
     "With --cluster: scheduler metric without with difference change, with the letters s m w W d c.",
     DP_TAKES_FILES | DP_TAKES_SIMULATE | DP_TAKES_TABLE | DP_TAKES_JSON | DP_TAKES_ALL, dp_cmd_simulate},
    {0},
};

enum dp_exit dp_cmd_fail(const struct dp_cli *cli, const struct dp_err *err)
{
    char clean[1200];

    if (cli->json) {
        json_t *doc = dp_json_envelope(cli->command->name, "", NULL);

        dp_json_add_error(doc, "errors", err->text);
        dp_json_print(doc, false);
        json_decref(doc);
    }
    fprintf(stderr, "dynpipe %s: %s\n", cli->command->name, dp_text_clean(clean, sizeof clean, err->text));
    return err->code == DP_EAUTH ? DP_EXIT_REFUSED : DP_EXIT_ERROR;
}

/* What could not be printed is an error; one is told already where the command failed. */
static enum dp_exit end(enum dp_exit code)
{
    struct dp_err err;

    if (dp_stdout_flush(&err) == 0 || code != DP_EXIT_OK)
        return code;
    fprintf(stderr, "dynpipe: %s\n", err.text);
    return DP_EXIT_ERROR;
}

int main(int argc, char **argv)
{
    struct dp_cli cli;
    struct dp_err err;

    setlocale(LC_CTYPE, "");
    dp_text_setup(false);
    signal(SIGPIPE, SIG_DFL);
    switch (dp_cli_parse(argc, argv, &cli)) {
    case DP_PARSED_DONE: return end(DP_EXIT_OK);
    case DP_PARSED_WRONG: return DP_EXIT_USAGE;
    case DP_PARSED_RUN: break;
    }
    dp_text_setup(cli.ascii);
    if (cli.job_member && dp_job_of_member(cli.job_member, &cli.job_id, &err) < 0)
        return end(dp_cmd_fail(&cli, &err));
    return end(cli.command->run(&cli));
}
