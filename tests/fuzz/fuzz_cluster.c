/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of clusters and workload files of `dynpipe simulate --cluster`: files that a user brings
 * along. What is read is simulated, where it is small, by every scheduler; what is a workload file is
 * written and read again. */
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/cluster/read/read.h"
#include "policies/cluster/stats.h"

const char fuzz_name[] = "fuzz_cluster";

enum { MOST_JOBS = 300 };

static void check_stats(const struct dp_cluster_mix *mix, uint32_t nodes, bool is_shrinking, const struct dp_cluster_times *t)
{
    struct dp_cluster_stats s;

    if (dp_cluster_stats_fill(mix, nodes, is_shrinking, t, &s, NULL) < 0)
        fuzz_die("no statistics");
    if (!(s.wait_s.mean >= 0) || !(s.slowdown.mean >= 0.999999) || !(s.held_share <= 1.000001) || !isfinite(s.held_node_s) ||
        (is_shrinking && !(s.needed_node_s <= s.held_node_s * 1.000001)))
        fuzz_die("a result is not a number");
}

static void simulate(const struct dp_cluster_mix *mix, const struct dp_cluster_machine *m)
{
    static struct dp_cluster_times t[MOST_JOBS];

    if (!mix->n_jobs || mix->n_jobs > MOST_JOBS || dp_cluster_mix_check(mix, m->nodes, NULL) < 0)
        return;
    for (int k = 0; k < 2 * DP_CLUSTER_SCHEDULERS; k++) {
        if (dp_cluster_run(mix, m, (enum dp_cluster_scheduler)(k / 2), k % 2, t, NULL) < 0)
            continue;
        for (uint32_t i = 0; i < mix->n_jobs; i++)
            if (t[i].start_ns < mix->job[i].submit_ns || t[i].end_ns < t[i].start_ns || t[i].end_ns == UINT64_MAX)
                fuzz_die("a job has not run, or before it came");
        check_stats(mix, m->nodes, k % 2, t);
    }
}

/* returns: text, to be freed. */
static char *write_text(const struct dp_cluster_mix *mix, uint32_t nodes, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    if (!f)
        fuzz_die("out of memory");
    dp_cluster_swf_write(mix, NULL, NULL, nodes, "x", f);
    fclose(f);
    return text;
}

static void write_and_read(const struct dp_cluster_mix *mix, uint32_t nodes)
{
    struct dp_cluster_swf swf = {0};
    struct dp_cluster_counts counts;
    struct dp_cluster_mix again;
    size_t bytes, bytes2;
    char *text = write_text(mix, nodes, &bytes), *text2;

    if (dp_cluster_swf_parse("x", text, bytes, &swf, &again, &counts, NULL) < 0)
        fuzz_die("what was written cannot be read");
    text2 = write_text(&again, nodes, &bytes2);
    if (bytes != bytes2 || memcmp(text, text2, bytes) != 0)
        fuzz_die("what was written is written differently");
    for (uint32_t i = 0; i < again.n_jobs && i < mix->n_jobs; i++)
        again.job[i].log_at = mix->job[i].log_at; /* lines may lie elsewhere */
    if (again.n_jobs != mix->n_jobs || swf.nodes != nodes || memcmp(again.job, mix->job, mix->n_jobs * sizeof *mix->job) != 0)
        fuzz_die("what was written is read as something else");
    dp_cluster_mix_release(&again);
    free(text);
    free(text2);
}

static void try_swf(const uint8_t *data, size_t bytes)
{
    const struct dp_cluster_machine m = {.latency_ns = 2000000000u, .interval_ns = 30000000000u, .window_ns = 86400000000000u,
                                         .depth = 20};
    struct dp_cluster_machine machine = m;
    struct dp_cluster_curve curve = {.n_steps = 1, .step = {{0.5, 0.5}}, .stretch = 1.5, .min_nodes = 1};
    struct dp_cluster_swf swf = {0};
    struct dp_cluster_counts counts;
    struct dp_cluster_mix mix;

    if (dp_cluster_swf_parse("x", (const char *)data, bytes, &swf, &mix, &counts, NULL) < 0)
        return;
    if (mix.n_jobs)
        write_and_read(&mix, swf.nodes);
    machine.nodes = swf.nodes;
    mix.curve = malloc(sizeof curve);
    if (!mix.curve)
        fuzz_die("out of memory");
    *mix.curve = curve;
    mix.n_curves = 1;
    for (uint32_t i = 0; i < mix.n_jobs; i++)
        mix.job[i].curve = i % 2;
    simulate(&mix, &machine);
    dp_cluster_mix_release(&mix);
}

/* A model makes as many jobs as it is told to, and a simulated run is another target's matter. */
static bool is_modest(const uint8_t *data, size_t bytes)
{
    json_t *document = json_loadb((const char *)data, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *workload = json_object_get(document, "workload");
    bool is = json_number_value(json_object_get(workload, "jobs")) <= MOST_JOBS;
    const json_t *group;
    size_t i;

    json_array_foreach(json_object_get(document, "dynpipe"), i, group)
    {
        is &= !json_object_get(group, "run");
    }
    json_decref(document);
    return is;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct dp_cluster_case c;

    try_swf(data, bytes);
    if (!bytes || data[0] != '{' || !is_modest(data, bytes) || dp_cluster_read(fuzz_file(data, bytes), NULL, 0, &c, NULL) < 0)
        return 0;
    simulate(&c.mix, &c.machine);
    dp_cluster_case_release(&c);
    return 0;
}

void fuzz_make_seeds(void)
{
    fuzz_seed_text("; Version: 2.2\n; Computer: a seed\n; MaxNodes: 4\n; MaxProcs: 30\n\n1 0 5 100 8 -1 -1 8 200 -1 1 3 4 5 6 7 -1 -1\n"
                   "2 10.5 -1 50.25 9 12.5 1000 4 60 -1 0 -1 -1 -1 -1 -1 1 60\n3 20 -1 30 -1 -1 -1 17 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n"
                   "4 5 -1 0 32 -1 -1 1 2147483647 -1 1 -1 -1 -1 -1 -1 -1 -1\n5 30 -1 10 8 -1 -1 8 1e2 -1 5 3 4 5 6 7 -1 -1\n");
    fuzz_seed_text("; MaxProcs: 8\n1 0 -1 10 8 -1 -1 8 20 -1 1 1 1 1 1 1 -1 -1\n2 1 -1 10 6 -1 -1 6 20 -1 1 1 1 1 1 1 -1 -1\n"
                   "3 2 -1 10 2 -1 -1 2 10 -1 1 1 1 1 1 1 -1 -1\n4 3 -1 40 2 -1 -1 2 50 -1 1 1 1 1 1 1 -1 -1\n");
    fuzz_seed_text("{\"name\": \"a seed\", \"source\": \"made up\", \"nodes\": 16, \"devices_per_node\": 4,"
                   " \"schedulers\": [\"easy\", \"slurm\"],"
                   " \"release_latency_s\": 0.5, \"slurm\": {\"bf_interval_s\": 60, \"bf_window_s\": 7200, \"bf_max_job_test\": 10},"
                   " \"workload\": {\"model\": \"classes\", \"seed\": 4, \"jobs\": 40, \"between_arrivals_s\": {\"exponential\": 100},"
                   " \"load\": 0.9, \"classes\": [{\"name\": \"train\", \"nodes\": {\"choices\": [[4, 1], [8, 1]]},"
                   " \"run_s\": {\"uniform\": [100, 300]}, \"estimate\": {\"factor\": {\"uniform\": [1, 3]}, \"at_most_s\": 400}},"
                   " {\"name\": \"other\", \"share\": 3, \"nodes\": 1, \"run_s\": {\"log_uniform\": [1, 1000]}}]},"
                   " \"dynpipe\": [{\"class\": \"train\", \"share\": 0.5, \"min_nodes\": 5, \"needs\": [{\"at\": 0.5, \"share\": 0.5},"
                   " {\"at\": 0.7, \"share\": 0.2}], \"run_time_factor\": 1.1, \"keep_nodes\": 2, \"single_release\": true}]}");
    fuzz_seed_text("{\"source\": \"x\", \"nodes\": 8, \"workload\": {\"model\": \"lublin-feitelson\", \"jobs\": 60, \"load\": 1,"
                   " \"estimate\": {\"factor\": 2}}, \"dynpipe\": [{\"user\": 3, \"needs\": [{\"at\": 0.1, \"share\": 0.1}]},"
                   " {\"needs\": [{\"at\": 0.5, \"share\": 0.5}]}]}");
}
