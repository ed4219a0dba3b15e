/* SPDX-License-Identifier: BSD-3-Clause */
/* Model descriptions and traces of `dynpipe simulate`: files that a user brings along. What is read is
 * simulated, where it is small. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stddef.h>

#include "policies/sim/case/read.h"
#include "policies/sim/run.h"

const char fuzz_name[] = "fuzz_simulate";

static int look(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    (void)arg;
    (void)err;
    if (p->out->iteration_ns < dp_sim_lower_bound(p->in))
        fuzz_die("faster than the lower bound");
    if (!(p->tokens_per_s >= 0) || !isfinite(p->device_s) || !(p->density >= 0 && p->density <= 1e15))
        fuzz_die("a result is not a number");
    return 0;
}

/* with: for a graph that does not say how many devices there are. */
static void read_and_run(char *path, const struct dp_sim_override *with)
{
    struct dp_sim_totals totals;
    struct dp_sim_case c;
    uint64_t work;

    if (dp_sim_read(1, &path, with, &c, NULL) < 0)
        return;
    work = (uint64_t)c.replicas * c.devices * c.chunks * (c.microbatches + c.buckets) + 10ull * c.n_layers;
    if (work < 20000 && work * (c.n_events + 1) < 200000)
        dp_sim_run(&c, look, NULL, &totals, NULL);
    dp_sim_case_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *path = (char *)(uintptr_t)fuzz_file(data, bytes);

    read_and_run(path, NULL);
    read_and_run(path, &(struct dp_sim_override){.devices = 2, .microbatches = 3});
    return 0;
}

void fuzz_make_seeds(void)
{
    fuzz_seed_text("{\"source\": \"a seed\", \"devices\": 2, \"chunks\": 2, \"replicas\": 2, \"microbatches\": 2,"
                   " \"schedule\": \"interleaved\", \"tokens_per_microbatch\": 10, \"gradient_buckets\": 2, \"kinds\": {"
                   "\"a\": [{\"density\": 1, \"forward_ms\": 1, \"backward_input_ms\": 1, \"backward_weight_ms\": 1e3,"
                   " \"optimizer_ms\": 1, \"state_bytes\": 10, \"activation_bytes\": 10, \"kept_for_weights_bytes\": 3,"
                   " \"gradient_bytes\": 4, \"output_bytes\": 4, \"parameters\": 7},"
                   " {\"density\": 0.1, \"forward_ms\": 1, \"backward_input_ms\": 1, \"backward_weight_ms\": 1}]},"
                   " \"layers\": [\"a\", {\"kind\": \"a\", \"count\": 3}], \"iterations\": 9, \"layout\": [1, 1, 1, 1],"
                   " \"device\": {\"speed\": [1, 0.5], \"memory_bytes\": 1000}, \"network\": {\"devices_per_node\": 2,"
                   " \"neighbours\": \"replicas\", \"inside\": {\"latency_us\": 1, \"gb_per_s\": 1}, \"between\": {\"gb_per_s\": 1}},"
                   " \"events\": [{\"iteration\": 2, \"density\": 0.5, \"pause_ms\": 1, \"overhead_ms\": 2},"
                   " {\"iteration\": 3, \"density\":"
                   " [1, 1, 0.2, 0.3], \"balance\": \"time\"}]}");
    fuzz_seed_text("{\"source\": \"a seed\", \"devices\": 3, \"microbatches\": 4, \"schedule\": \"zb-h1\", \"balance\": \"time\","
                   " \"kinds\": {\"a\": {\"forward_ms\": 1, \"backward_input_ms\": 1, \"backward_weight_ms\": 1}},"
                   " \"layers\": [{\"kind\": \"a\", \"count\": 6}], \"iterations\": 5, \"events\": [{\"iteration\": 2,"
                   " \"layout\": [3, 0, 3], \"release\": \"nodes\"}, {\"iteration\": 3, \"balance\": \"uniform\", \"devices\": 1,"
                   " \"release\": \"devices\"}]}");
    fuzz_seed_text("node1 -- in -- forward_compute_time=1, backward_compute_time=2, activation_size=3, parameter_size=4\n"
                   "node2 -- out -- forward_compute_time=5, backward_compute_time=6, activation_size=[7; 8], parameter_size=9\n"
                   "\tnode1 -- node2\n");
    fuzz_seed_text("{\"maxSizePerFPGA\": 100, \"maxFPGAs\": 2, \"maxCPUs\": 0, \"nodes\": [{\"id\": 0, \"supportedOnFpga\": 1,"
                   " \"cpuLatency\": 10, \"fpgaLatency\": 1, \"isBackwardNode\": 0, \"colorClass\": 0, \"size\": 5}, {\"id\": 1,"
                   " \"supportedOnFpga\": 1, \"cpuLatency\": 10, \"fpgaLatency\": 2, \"isBackwardNode\": 1, \"colorClass\": 0,"
                   " \"size\": 5}], \"edges\": [{\"sourceId\": 0, \"destId\": 1, \"cost\": 3, \"size\": 1}]}");
    fuzz_seed_text("{\"trace\": 1, \"source\": \"a seed\", \"rank\": 0, \"workers\": 2, \"layers\": 2, \"schedule\": \"gpipe\","
                   " \"microbatches\": 2, \"tokens_per_microbatch\": 10, \"boundary_bytes\": 8,"
                   " \"link_latency_ns\": 3, \"link_transfer_ns\": 2}\n"
                   "{\"step\": 4, \"steps\": 4, \"layout\": [1, 1], \"held\": 2, \"step_ns\": 10, \"optimizer_ns\": 7,"
                   " \"boundary_ns\": 5, \"first_layer\": 0, \"layers\": [{\"forward_ns\": 1, \"backward_input_ns\": 1,"
                   " \"backward_weight_ns\": 1, \"state_bytes\": 1, \"activation_bytes\": 1, \"parameters\": 5, \"nonzeros\": 5}]}\n"
                   "{\"step\": 9, \"steps\": 5, \"layout\": [2, 0], \"held\": 1, \"step_ns\": 10, \"optimizer_ns\": 7,"
                   " \"boundary_ns\": 5, \"first_layer\": 0, \"layers\": [{\"forward_ns\": 1, \"backward_input_ns\": 1,"
                   " \"backward_weight_ns\": 1, \"state_bytes\": 1, \"activation_bytes\": 1, \"parameters\": 5, \"nonzeros\": 5},"
                   " {\"forward_ns\": 1, \"backward_input_ns\": 1, \"backward_weight_ns\": 1, \"state_bytes\": 1,"
                   " \"activation_bytes\": 1, \"parameters\": 5, \"nonzeros\": 5}]}\n");
}
