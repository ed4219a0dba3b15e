/* SPDX-License-Identifier: BSD-3-Clause */
/* Job mixes: workload files (the Standard Workload Format), models, descriptions; what is wrong in them is
 * named, what archives contain is counted, and what is written is read back. */
#include <config.h>

#include "tests/unit/unit.h"

#include <math.h>
#include <unistd.h>

#include "common/clock.h"
#include "policies/cluster/curve.h"
#include "policies/cluster/read/read.h"
#include "policies/cluster/stats.h"
#include "policies/sim/case/read.h"
#include "tests/unit/random.h"

#define S 1000000000ull

/* ---- workload files ---- */

static int parse(const char *text, struct dp_cluster_swf *swf, struct dp_cluster_mix *mix, struct dp_cluster_counts *n,
                 struct dp_err *err)
{
    return dp_cluster_swf_parse("log", text, strlen(text), swf, mix, n, err);
}

static void a_workload_file(void **state)
{
    static const char text[] = "; Version: 2.2\r\n"
                               ";  Computer: a machine of ours \n"
                               "; MaxNodes: 4 (and one for logins)\n"
                               ";MaxProcs:  30\n"
                               "; MaxNodes: 99\n"
                               "; Note: fields are: job submit wait\n"
                               "\n"
                               "  1 0 5 100 8 -1 -1 8 200 -1 1 3 4 5 6 7 -1 -1  \r\n"
                               "2\t10.5 -1 50.25 9 12.5 1000 4 60 -1 0 -1 -1 -1 -1 -1 1 60\n"
                               "3 20 -1 30 -1 -1 -1 17 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n"
                               ";comments may stand anywhere\n"
                               "4 21 -1 30 1 -1 -1 1 20 -1 5 -1 -1 -1 -1 -1 -1 -1\n"
                               "5 5 -1 0 32 -1 -1 1 2147483647 -1 1 -1 -1 -1 -1 -1 -1 -1";
    struct dp_cluster_swf swf = {0};
    struct dp_cluster_counts n;
    struct dp_cluster_mix mix;
    struct dp_err err;

    (void)state;
    if (parse(text, &swf, &mix, &n, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(swf.nodes, 4);
    assert_int_equal(swf.processors_per_node, 8); /* 30 on 4 nodes */
    assert_string_equal(swf.computer, "a machine of ours");
    assert_int_equal(mix.n_jobs, 5);
    assert_int_equal(n.records, 5);
    assert_int_equal(n.out_of_order, 1);
    assert_int_equal(n.no_limit, 1);
    assert_int_equal(n.above_limit, 1);
    assert_int_equal(mix.job[0].number, 1);
    assert_int_equal(mix.job[0].run_ns, 100 * S);
    assert_int_equal(mix.job[0].limit_ns, 200 * S);
    assert_int_equal(mix.job[0].nodes, 1);
    assert_int_equal(mix.job[0].owner.user, 3);
    assert_int_equal(mix.job[0].owner.group, 4);
    assert_int_equal(mix.job[0].owner.executable, 5);
    assert_int_equal(mix.job[0].owner.queue, 6);
    assert_int_equal(mix.job[0].owner.partition, 7);
    assert_int_equal(mix.job[1].number, 5); /* was out of order */
    assert_int_equal(mix.job[1].nodes, 4);
    assert_int_equal(mix.job[1].limit_ns, DP_CLUSTER_MAX_NS);
    assert_int_equal(mix.job[2].submit_ns, 10500000000u);
    assert_int_equal(mix.job[2].run_ns, 50250000000u);
    assert_int_equal(mix.job[2].nodes, 2); /* 9 allocated processors, whatever was requested */
    assert_int_equal(mix.job[2].owner.user, -1);
    assert_int_equal(mix.job[3].nodes, 3); /* 17 requested, allocation unknown */
    assert_int_equal(mix.job[3].limit_ns, 30 * S);
    assert_int_equal(mix.job[4].limit_ns, 30 * S);
    dp_cluster_mix_release(&mix);
}

static void what_is_no_job_is_counted(void **state)
{
    static const char text[] = "1 0 -1 10 2 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
                               "2 0 -1 10 2 -1 -1 -1 -1 -1 2 -1 -1 -1 -1 -1 -1 -1\n"
                               "2 0 -1 10 2 -1 -1 -1 -1 -1 4 -1 -1 -1 -1 -1 -1 -1\n"
                               "3 0 -1 -1 2 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1\n"
                               "4 0 -1 0 2 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1\n"
                               "5 0 -1 10 -1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
                               "6 0 -1 10 0 -1 -1 0 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
                               "7 0 -1 10 17 -1 -1 17 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
                               "8 0 -1 0 16 -1 -1 16 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n";
    struct dp_cluster_swf swf = {.nodes = 8, .processors_per_node = 2};
    struct dp_cluster_counts n;
    struct dp_cluster_mix mix;

    (void)state;
    assert_int_equal(parse(text, &swf, &mix, &n, NULL), 0);
    assert_int_equal(mix.n_jobs, 2);
    assert_int_equal(n.parts, 2);
    assert_int_equal(n.never_ran, 2);
    assert_int_equal(n.no_size, 2);
    assert_int_equal(n.too_large, 1);
    dp_cluster_mix_release(&mix);
}

static void refused(const char *text, const char *why)
{
    struct dp_cluster_swf swf = {0};
    struct dp_cluster_counts n;
    struct dp_cluster_mix mix;
    struct dp_err err;

    if (parse(text, &swf, &mix, &n, &err) == 0)
        fail_msg("accepted: %s", text);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" is not in \"%s\"", why, err.text);
    assert_null(mix.job);
}

static void wrong_files_are_refused(void **state)
{
#define HEAD "; MaxProcs: 8\n\n"
#define TAIL " 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n"
    (void)state;
    refused("", "log: holds no jobs");
    refused("; MaxProcs: 8\n", "log: holds no jobs");
    refused("1 0 -1 10" TAIL, "neither MaxNodes nor MaxProcs");
    refused("; MaxNodes: unknown\n1 0 -1 10" TAIL, "neither MaxNodes nor MaxProcs");
    refused("; MaxNodes: 99999999999\n1 0 -1 10" TAIL, "neither MaxNodes nor MaxProcs");
    refused("; MaxNodes: 4000000000\n1 0 -1 10" TAIL, "at most 1000000 are simulated");
    refused(HEAD "1 0 -1 10 2\n", "log:3: 5 fields; a job has 18");
    refused(HEAD "1 0 -1 10" TAIL "1 0 -1 10 1" TAIL, "log:4: 19 fields");
    refused(HEAD "1 -1 -1 10" TAIL, "log:3: field 2 (submit time) is '-1'; expected a time from 0");
    refused(HEAD "1 0 -1 -5" TAIL, "log:3: field 4 (run time) is '-5'");
    refused(HEAD "1 0 -1 nan" TAIL, "log:3: field 4 (run time) is 'nan'; expected a number");
    refused(HEAD "1 0 -1 inf" TAIL, "expected a number");
    refused(HEAD "1 0 -1 1e999" TAIL, "expected a number");
    refused(HEAD "1 0 -1 0x10" TAIL, "expected a number");
    refused(HEAD "1 0 -1 1e9" TAIL, "a time from 0 to 1e8 s");
    refused(HEAD "1 1e10 -1 10" TAIL, "a time from 0 to 1e9 s");
    refused(HEAD "1 0 -1 10-" TAIL, "'10-'; expected a number");
    refused(HEAD "1 0 -1 ." TAIL, "expected a number");
    refused(HEAD "1 0 -1 10 2.5 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1", "field 5 (allocated processors) is '2.5'; expected a whole number");
    refused(HEAD "1 0 -1 10 99999999999 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1", "not too large");
    refused(HEAD "1 0 -1 10 2 -1 -1 -2 20 -1 1 1 1 1 1 1 -1 -1", "field 8 (requested processors)");
    refused(HEAD "1 0 -1 10 2 x -1 2 20 -1 1 1 1 1 1 1 -1 -1", "field 6 (CPU time) is 'x'");
    refused(HEAD "1 0 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 think\n", "field 18 (think time)");
    refused(HEAD "1 0 -1 10" TAIL "\x1b[2J", "log:4: field 1 (job number) is '?[2J'");
    refused("\x1f\x8b\x08", "compressed; unpack");
    assert_int_equal(dp_cluster_swf_parse("log", "1 0\0 1\n", 7, &(struct dp_cluster_swf){0}, &(struct dp_cluster_mix){0},
                                          &(struct dp_cluster_counts){0}, NULL), -1);
}

/* Every mix that is written is read back, and written the same again. */
static void what_is_written_is_read_back(void **state)
{
    uint64_t seed = 5;

    (void)state;
    for (int round = 0; round < 50; round++) {
        uint32_t n = 1 + random_below(&seed, 40), nodes = 1 + random_below(&seed, 1000);
        struct dp_cluster_mix mix = {.n_jobs = n, .job = calloc(n, sizeof *mix.job)}, again;
        struct dp_cluster_swf swf = {0};
        struct dp_cluster_counts counts;
        uint64_t at_ns = 0;
        char *text = NULL, *text2 = NULL;
        size_t bytes, bytes2;
        struct dp_err err;
        FILE *f = open_memstream(&text, &bytes);

        for (uint32_t i = 0; i < n; i++) {
            struct dp_cluster_job *j = &mix.job[i];

            at_ns += random_u64(&seed) % (3 * S) * random_below(&seed, 2);
            *j = (struct dp_cluster_job){.submit_ns = at_ns, .number = i + 1, .nodes = 1 + random_below(&seed, nodes)};
            j->run_ns = random_u64(&seed) % DP_CLUSTER_MAX_NS >> random_below(&seed, 50);
            j->limit_ns = j->run_ns + random_u64(&seed) % (DP_CLUSTER_MAX_NS - j->run_ns + 1);
            j->owner = (struct dp_cluster_owner){(int32_t)random_below(&seed, 9) - 1, -1, INT32_MAX, 0, 7};
        }
        dp_cluster_swf_write(&mix, NULL, NULL, nodes, "a test", f);
        fclose(f);
        if (dp_cluster_swf_parse("log", text, bytes, &swf, &again, &counts, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(again.n_jobs, n);
        assert_int_equal(swf.nodes, nodes);
        assert_string_equal(swf.computer, "a test");
        for (uint32_t i = 0; i < n; i++) {
            struct dp_cluster_job job = again.job[i];

            job.log_at = 0;
            assert_memory_equal(&job, &mix.job[i], sizeof job);
        }
        f = open_memstream(&text2, &bytes2);
        dp_cluster_swf_write(&again, NULL, NULL, nodes, "another", f);
        fclose(f);
        assert_int_equal(bytes, bytes2);
        assert_memory_equal(text, text2, bytes);
        dp_cluster_mix_release(&mix);
        dp_cluster_mix_release(&again);
        free(text);
        free(text2);
    }
}

static char *write_text(const struct dp_cluster_mix *mix, const struct dp_cluster_times *times, uint32_t nodes)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    assert_non_null(f);
    dp_cluster_swf_write(mix, times, times ? "easy" : NULL, nodes, "no computer", f);
    fclose(f);
    return text;
}

/* The text that a workload file is written as: what is not simulated stays. */
static void writes(const char *text, uint32_t nodes, uint32_t processors_per_node, const struct dp_cluster_times *times, const char *want)
{
    struct dp_cluster_swf swf = {.nodes = nodes, .processors_per_node = processors_per_node}, swf2 = {0};
    struct dp_cluster_mix mix, again;
    struct dp_cluster_counts n;
    struct dp_err err;
    char *written, *anew;

    if (parse(text, &swf, &mix, &n, &err) < 0)
        fail_msg("%s", err.text);
    written = write_text(&mix, times, swf.nodes);
    assert_string_equal(written, want);
    if (parse(written, &swf2, &again, &n, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(swf2.nodes, swf.nodes);
    assert_int_equal(swf2.processors_per_node, swf.processors_per_node);
    assert_int_equal(again.n_jobs, mix.n_jobs);
    for (uint32_t i = 0; i < mix.n_jobs; i++) {
        assert_int_equal(again.job[i].nodes, mix.job[i].nodes);
        assert_int_equal(again.job[i].run_ns, mix.job[i].run_ns);
        assert_int_equal(again.job[i].limit_ns, mix.job[i].limit_ns);
        assert_int_equal(again.job[i].submit_ns, mix.job[i].submit_ns);
    }
    anew = write_text(&again, times, swf.nodes);
    assert_string_equal(anew, written);
    dp_cluster_mix_release(&mix);
    dp_cluster_mix_release(&again);
    free(written);
    free(anew);
}

#define LINE_1 "1 0 5 100 8 99.5 2048 9 200 4096 0 3 4 5 6 7 -1 -1\n"
#define LINE_2 "2 10.5 7 50.250 9 12.5 1000 4 -1 -1 -1 -1 -1 -1 -1 -1 1 60\n"
#define LINE_3 "3 20 -1 30 -1 -1 -1 17 2147483647 -1 1 1e0 -1 -1 -1 -1 2 0.25\n"
#define LOG "; Version: 2\r\n; Computer: ours\r\n;MaxJobs: 77\n; MaxNodes: 4 (and one for logins)\n; MaxProcs: 30\n" \
            "; UnixStartTime: 844127580\r\r\r\n; EndTime: Thu\n" LINE_1 \
            " 2\t10.5 7 50.250 9 12.5 1000 4 -1 -1 -1 -1 -1 -1 -1 -1 1 60 \r\n" \
            "4 20 -1 -1 1 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1\n; without a colon\n" LINE_3
#define KEPT "; Version: 2.2\n; Computer: ours\n; UnixStartTime: 844127580\n"

static void a_workload_file_keeps_its_columns(void **state)
{
    static const struct dp_cluster_times times[] = {{.start_ns = 0}, {.start_ns = 12 * S}, {.start_ns = 20250000000u}};

    (void)state;
    writes(LOG, 0, 0, NULL,
           KEPT "; EndTime: Thu\n; without a colon\n; MaxJobs: 3\n; MaxRecords: 3\n; MaxNodes: 4\n; MaxProcs: 30\n" LINE_1 LINE_2 LINE_3);
    writes(LOG, 16, 0, NULL, /* another cluster of the same nodes */
           KEPT "; EndTime: Thu\n; without a colon\n; MaxJobs: 3\n; MaxRecords: 3\n; MaxNodes: 16\n; MaxProcs: 128\n" LINE_1 LINE_2 LINE_3);
    writes(LOG "; Note: waiting times simulated by dynpipe, scheduler slurm\n; Note: stays\n", 4, 8, times,
           KEPT "; without a colon\n; Note: stays\n; MaxJobs: 3\n; MaxRecords: 3\n; MaxNodes: 4\n; MaxProcs: 30\n"
           "; Note: waiting times simulated by dynpipe, scheduler easy\n"
           "1 0 0 100 8 99.5 2048 9 200 4096 0 3 4 5 6 7 -1 -1\n"
           "2 10.5 1.5 50.250 9 12.5 1000 4 -1 -1 -1 -1 -1 -1 -1 -1 1 60\n"
           "3 20 0.25 30 -1 -1 -1 17 2147483647 -1 1 1e0 -1 -1 -1 -1 2 0.25\n");
    writes("; MaxProcs: 12\n" LINE_1, 0, 0, NULL,
           "; Version: 2.2\n; Computer: no computer\n; MaxJobs: 1\n; MaxRecords: 1\n; MaxNodes: 12\n; MaxProcs: 12\n" LINE_1);
    writes(LINE_1, 1000000, 1000000, NULL, /* more processors than fit into 32 bits */
           "; Version: 2.2\n; Computer: no computer\n; MaxJobs: 1\n; MaxRecords: 1\n; MaxNodes: 1000000\n; MaxProcs: 1000000000000\n"
           LINE_1);
}

/* ---- distributions ---- */

static void is_near(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %g, not %g +- %g", what, got, want, tolerance);
}

static void distributions_have_their_moments(void **state)
{
    enum { N = 200000 };
    const struct dp_cluster_distribution choices = {.kind = DP_CLUSTER_CHOICES, .n = 3, .value = {1, 2, 8}, .weight = {5, 0, 15}};
    const struct dp_cluster_distribution from[] = {
        {.kind = DP_CLUSTER_CONSTANT, .a = 7}, {.kind = DP_CLUSTER_EXPONENTIAL, .a = 3},
        {.kind = DP_CLUSTER_UNIFORM, .a = 2, .b = 6}, {.kind = DP_CLUSTER_LOG_UNIFORM, .a = 1, .b = 100}, choices,
    };
    /* mean, and standard deviation */
    static const double want[][2] = {{7, 0}, {3, 3}, {4, 1.1547}, {21.4976, 24.989}, {6.25, 3.0311}};
    struct dp_cluster_draw d = {1};
    double sum, square;

    (void)state;
    for (uint32_t k = 0; k < 6; k++) {
        double mean = k < 5 ? want[k][0] : 4.2 * 0.94, deviation = k < 5 ? want[k][1] : sqrt(4.2) * 0.94;

        sum = square = 0;
        for (int i = 0; i < N; i++) {
            double x = k < 5 ? dp_cluster_draw_from(&d, &from[k]) : dp_cluster_draw_gamma(&d, 4.2, 0.94);

            sum += x / N;
            square += x * x / N;
        }
        is_near("mean", sum, mean, 5 * deviation / sqrt(N) + 1e-6);
        is_near("deviation", sqrt(fmax(square - sum * sum, 0)), deviation, 0.02 * deviation + 1e-3);
    }
    for (int i = 0; i < 1000; i++)
        assert_true(dp_cluster_draw_from(&d, &choices) != 2);
    assert_true(dp_cluster_draw_at(3, 9) == dp_cluster_draw_at(3, 9) && dp_cluster_draw_at(3, 9) != dp_cluster_draw_at(4, 9));
}

/* What the paper's parameters mean for 128 nodes. */
static void jobs_of_lublin_and_feitelson(void **state)
{
    enum { N = 50000 };
    struct dp_cluster_model *m = calloc(1, sizeof *m);
    struct dp_cluster_mix mix, again;
    double serial = 0, powers = 0, by_hour[24] = {0}, most = 0, log_run = 0;

    (void)state;
    assert_non_null(m);
    m->seed = 11;
    m->n_jobs = N;
    m->estimate.factor = (struct dp_cluster_distribution){.kind = DP_CLUSTER_UNIFORM, .a = 1, .b = 5};
    m->estimate.most_s = 86400;
    assert_int_equal(dp_cluster_generate(m, 128, &mix, NULL), 0);
    assert_int_equal(dp_cluster_generate(m, 128, &again, NULL), 0);
    assert_memory_equal(mix.job, again.job, N * sizeof *mix.job);
    assert_int_equal(dp_cluster_mix_check(&mix, 128, NULL), 0);
    for (uint32_t i = 0; i < N; i++) {
        const struct dp_cluster_job *j = &mix.job[i];

        serial += j->nodes == 1;
        powers += j->nodes > 1 && !(j->nodes & (j->nodes - 1));
        by_hour[j->submit_ns / S / 3600 % 24]++;
        most = fmax(most, (double)j->run_ns * 1e-9);
        log_run += log((double)j->run_ns * 1e-9) / N;
        assert_true(j->submit_ns % S == 0 && j->run_ns % S == 0);
        assert_true(j->limit_ns >= j->run_ns && (j->limit_ns % (60 * S) == 0 || j->limit_ns == j->run_ns));
        assert_true(j->limit_ns <= 86400 * S || j->limit_ns == j->run_ns);
    }
    /* 0.244, and what of the others is rounded up from 0.8 .. 1 stays 2 */
    is_near("share of serial jobs", serial / N, 0.244, 0.01);
    assert_true(powers / N > 0.576 && powers / N < 0.7);
    assert_true(most <= exp(12) + 1);
    is_near("mean logarithm of the run time", log_run, 5.4, 0.4); /* between 0.78 * 3.9 + 0.22 * 9.4, and more for large jobs */
    assert_true(by_hour[15] > 2 * by_hour[4]); /* afternoon and night */
    dp_cluster_mix_release(&mix);
    dp_cluster_mix_release(&again);
    for (uint32_t nodes = 1; nodes < 5; nodes++) {
        m->n_jobs = 1000;
        assert_int_equal(dp_cluster_generate(m, nodes, &mix, NULL), 0);
        assert_int_equal(dp_cluster_mix_check(&mix, nodes, NULL), 0);
        dp_cluster_mix_release(&mix);
    }
    free(m);
}

/* ---- descriptions ---- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/dp-clusterXXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *const files[] = {"mix.json", "log.swf", "model.json"};

static int remove_folder(void **state)
{
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    return rmdir(folder);
}

static void put_file(const char *name, const char *text)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int read_text(const char *text, const char *swf, struct dp_cluster_case *c, struct dp_err *err)
{
    char path[128], swf_path[128];

    put_file("mix.json", text);
    snprintf(path, sizeof path, "%s/mix.json", folder);
    snprintf(swf_path, sizeof swf_path, "%s/%s", folder, swf ? swf : "");
    return dp_cluster_read(path, swf ? swf_path : NULL, 0, c, err);
}

static void must_read(const char *text, const char *swf, struct dp_cluster_case *c)
{
    struct dp_err err;

    if (read_text(text, swf, c, &err) < 0)
        fail_msg("%s", err.text);
}

static const char two_classes[] =
    "{\"name\": \"two\", \"source\": \"made up\", \"nodes\": 16, \"devices_per_node\": 4, \"schedulers\": [\"easy\", \"fifo\"],"
    " \"release_latency_s\": 0.5, \"slurm\": {\"bf_interval_s\": 60, \"bf_window_s\": 7200, \"bf_max_job_test\": 10},"
    " \"workload\": {\"model\": \"classes\", \"seed\": 4, \"jobs\": 4000, \"between_arrivals_s\": {\"exponential\": 100},"
    "  \"classes\": [{\"name\": \"train\", \"share\": 1, \"nodes\": {\"choices\": [[4, 1], [8, 1]]}, \"run_s\": {\"uniform\": [100, 300]},"
    "    \"estimate\": {\"factor\": {\"uniform\": [1, 3]}, \"at_most_s\": 400}},"
    "   {\"name\": \"other\", \"share\": 3, \"nodes\": 1, \"run_s\": {\"log_uniform\": [1, 1000]}}]},"
    " \"dynpipe\": [{\"class\": \"train\", \"share\": 0.5, \"min_nodes\": 5, \"needs\": [{\"at\": 0.5, \"share\": 0.5}],"
    "   \"run_time_factor\": 1.1, \"keep_nodes\": 2, \"single_release\": true}]}";

static void a_description(void **state)
{
    struct dp_cluster_case c;
    uint32_t n_train = 0, n_large = 0, n_shrinking = 0;

    (void)state;
    must_read(two_classes, NULL, &c);
    assert_string_equal(c.name, "two");
    assert_int_equal(c.machine.nodes, 16);
    assert_int_equal(c.devices_per_node, 4);
    assert_int_equal(c.n_schedulers, 2);
    assert_int_equal(c.scheduler[0], DP_CLUSTER_EASY);
    assert_int_equal(c.machine.latency_ns, S / 2);
    assert_int_equal(c.machine.interval_ns, 60 * S);
    assert_int_equal(c.machine.window_ns, 7200 * S);
    assert_int_equal(c.machine.depth, 10);
    assert_int_equal(c.mix.n_jobs, 4000);
    for (uint32_t i = 0; i < c.mix.n_jobs; i++) {
        const struct dp_cluster_job *j = &c.mix.job[i];

        n_train += j->class_id == 0;
        n_large += j->class_id == 0 && j->nodes == 8;
        n_shrinking += j->curve == 1;
        assert_true(j->class_id == 0 ? j->nodes == 4 || j->nodes == 8 : j->nodes == 1);
        assert_true(!j->curve || (j->class_id == 0 && j->nodes == 8));
        assert_true(j->class_id != 0 || j->limit_ns <= 420 * S);
        assert_true(j->class_id != 1 || j->limit_ns <= j->run_ns + 60 * S);
    }
    is_near("share of class train", n_train / 4000.0, 0.25, 0.03);
    is_near("share of DynPipe jobs", (double)n_shrinking / n_large, 0.5, 0.08);
    assert_int_equal(c.group[0].n_jobs, n_shrinking);
    assert_true(c.mix.curve[0].is_single && c.mix.curve[0].min_nodes == 2 && c.mix.curve[0].stretch == 1.1);
    assert_true(c.load > 0.1 && c.load_before == 0);
    dp_cluster_case_release(&c);
}

#define SOURCE "\"source\": \"x\""
#define NEEDS "\"needs\": [{\"at\": 0.5, \"share\": 0.5}]"
#define DYNPIPE "\"dynpipe\": [{" NEEDS "}]"

static void a_load_can_be_asked_for(void **state)
{
    struct dp_cluster_case c;

    (void)state;
    must_read("{" SOURCE ", \"nodes\": 64, \"workload\": {\"model\": \"lublin-feitelson\", \"jobs\": 5000, \"load\": 0.75}, "
              DYNPIPE "}", NULL, &c);
    is_near("load", c.load, 0.75, 0.001);
    assert_true(c.load_before > 0);
    assert_int_equal(c.n_schedulers, DP_CLUSTER_SCHEDULERS);
    assert_int_equal(c.machine.latency_ns, 2 * S);
    for (uint32_t i = 0; i < c.mix.n_jobs; i++) /* one node cannot be given back */
        assert_int_equal(c.mix.job[i].curve, c.mix.job[i].nodes > 1);
    dp_cluster_case_release(&c);
}

static void a_workload_file_beside_the_description(void **state)
{
    struct dp_cluster_case c;

    (void)state;
    put_file("log.swf", "; MaxProcs: 64\n; MaxNodes: 8\n1 0 -1 10 64 -1 -1 64 20 -1 1 1 2 3 4 5 -1 -1\n"
                        "2 5 -1 10 16 -1 -1 16 20 -1 1 9 2 3 4 5 -1 -1\n3 7 -1 10 99 -1 -1 99 20 -1 1 9 2 3 4 5 -1 -1\n");
    must_read("{" SOURCE ", \"workload\": {\"swf\": \"log.swf\"}, \"dynpipe\": [{\"user\": 9, " NEEDS "}]}", NULL, &c);
    assert_int_equal(c.machine.nodes, 8);
    assert_int_equal(c.mix.n_jobs, 2);
    assert_int_equal(c.counts.too_large, 1);
    assert_int_equal(c.mix.job[0].curve, 0);
    assert_int_equal(c.mix.job[1].curve, 1);
    assert_non_null(strstr(c.workload, "log.swf"));
    dp_cluster_case_release(&c);
    /* the file instead of the model, and nodes of another size */
    must_read(two_classes, NULL, &c);
    dp_cluster_case_release(&c);
    must_read("{" SOURCE ", \"nodes\": 16, \"workload\": {\"model\": \"lublin-feitelson\", \"jobs\": 5}, " DYNPIPE "}", "log.swf", &c);
    assert_int_equal(c.mix.n_jobs, 3);
    assert_int_equal(c.machine.nodes, 16);
    dp_cluster_case_release(&c);
    must_read("{" SOURCE ", \"nodes\": 32, \"workload\": {\"swf\": \"none.swf\", \"processors_per_node\": 4, \"load\": 0.5}, "
              DYNPIPE "}", "log.swf", &c);
    assert_int_equal(c.mix.n_jobs, 3);
    assert_int_equal(c.mix.job[0].nodes, 16);
    is_near("load", c.load, 0.5, 0.1); /* whole seconds */
    dp_cluster_case_release(&c);
}

static const char model[] =
    "{\"source\": \"made up\", \"devices\": 8, \"microbatches\": 16, \"network\": {\"devices_per_node\": 2},"
    " \"kinds\": {\"a\": [{\"density\": 1, \"forward_ms\": 10, \"backward_input_ms\": 10, \"backward_weight_ms\": 10},"
    "  {\"density\": 0.1, \"forward_ms\": 1, \"backward_input_ms\": 1, \"backward_weight_ms\": 1}]},"
    " \"layers\": [{\"kind\": \"a\", \"count\": 16}], \"iterations\": 100, \"balance\": \"time\","
    " \"events\": [{\"iteration\": 51, \"density\": 0.1},"
    "  {\"iteration\": 76, \"balance\": \"time\", \"devices\": 4, \"pause_ms\": 500, \"release\": \"nodes\"}]}";

/* The curve of a simulated run: its devices over its time, against the numbers of the run itself. */
static void a_curve_from_a_simulated_run(void **state)
{
    const double dense_s = 50 * (16 + 7) * 0.06, sparse_s = 25 * (16 + 7) * 0.006, packed_s = 25 * (16 + 3) * 0.012;
    const double with_s = dense_s + sparse_s + 0.5 + packed_s, without_s = dense_s + 2 * sparse_s;
    struct dp_cluster_case c;

    (void)state;
    put_file("model.json", model);
    must_read("{" SOURCE ", \"nodes\": 16, \"workload\": {\"model\": \"lublin-feitelson\", \"jobs\": 5}, "
              "\"dynpipe\": [{\"run\": \"model.json\"}]}", NULL, &c);
    assert_int_equal(c.mix.curve[0].n_steps, 1);
    is_near("time of the release", c.mix.curve[0].step[0].at, (dense_s + sparse_s + 0.5) / with_s, 1e-9);
    is_near("share", c.mix.curve[0].step[0].hold, 0.5, 1e-12);
    is_near("run time", c.mix.curve[0].stretch, with_s / without_s, 1e-9);
    dp_cluster_case_release(&c);
    must_read("{" SOURCE ", \"nodes\": 16, \"workload\": {\"model\": \"lublin-feitelson\", \"jobs\": 5}, "
              "\"dynpipe\": [{\"run\": \"model.json\", \"run_time_factor\": 1}]}", NULL, &c);
    assert_true(c.mix.curve[0].stretch == 1);
    dp_cluster_case_release(&c);
}

static void wrong_descriptions_are_refused(void **state)
{
#define MODEL "\"nodes\": 4, \"workload\": {\"model\": \"lublin-feitelson\", \"jobs\": 5}"
#define LUBLIN(x) "{" SOURCE ", \"nodes\": 4, \"workload\": {\"model\": \"lublin-feitelson\"" x "}, " DYNPIPE "}"
#define CLASSES(x) "{" SOURCE ", \"nodes\": 4, \"workload\": {\"model\": \"classes\", \"jobs\": 5, " x "}, " DYNPIPE "}"
#define CLASS(x) CLASSES("\"between_arrivals_s\": 1, \"classes\": [{\"name\": \"a\", " x "}]")
#define GROUP(x) "{" SOURCE ", " MODEL ", \"dynpipe\": [{" x "}]}"
    static const char *const wrong[][2] = {
        {"", "mix.json: the file is empty"},
        {"{\"source\": \"x\",\n \"nodes\": nan}", "mix.json:2: "},
        {"[]", "the document: expected an object"},
        {"{" MODEL ", " DYNPIPE "}", "mix.json: source: is missing"},
        {"{\"source\": \"\", " MODEL ", " DYNPIPE "}", "source: is empty"},
        {"{" SOURCE ", " MODEL ", " DYNPIPE ", \"node\": 3}", "node: unknown; known:"},
        {"{" SOURCE ", \"nodes\": 1e999}", "mix.json:1: "},
        {"{" SOURCE ", \"nodes\": -4}", "nodes: expected a number from 1"},
        {"{" SOURCE ", \"nodes\": 2.5}", "nodes: expected a whole number"},
        {"{" SOURCE ", \"workload\": {\"model\": \"lublin-feitelson\", \"jobs\": 5}, " DYNPIPE "}", "nodes: is missing"},
        {"{" SOURCE ", \"nodes\": 4, " DYNPIPE "}", "workload: is missing"},
        {"{" SOURCE ", \"nodes\": 4, \"workload\": {\"model\": \"x\", \"jobs\": 5}, " DYNPIPE "}", "workload.model: expected"},
        {LUBLIN(""), "workload.jobs: is missing"},
        {LUBLIN(", \"jobs\": 1e9"), "workload.jobs: expected"},
        {LUBLIN(", \"jobs\": 1, \"load\": 0.5"), "a load of 0.5 cannot be reached"},
        {LUBLIN(", \"jobs\": 9, \"classes\": []"), "has its own arrivals"},
        {CLASSES("\"classes\": []"), "workload.between_arrivals_s: is missing"},
        {CLASSES("\"between_arrivals_s\": 1, \"classes\": []"), "workload.classes: expected an array of 1"},
        {CLASSES("\"between_arrivals_s\": {\"poisson\": 1}, \"classes\": []"), "expected a number, or one of constant exponential"},
        {CLASSES("\"between_arrivals_s\": {\"uniform\": [3, 1]}, \"classes\": []"), "expected a number, or one of"},
        {CLASSES("\"between_arrivals_s\": {\"log_uniform\": [0, 1]}, \"classes\": []"), "expected a number, or one of"},
        {CLASSES("\"between_arrivals_s\": {\"choices\": [[1, 0]]}, \"classes\": []"), "expected a number, or one of"},
        {CLASSES("\"between_arrivals_s\": {\"exponential\": -1}, \"classes\": []"), "expected a number, or one of"},
        {LUBLIN(", \"jobs\": 5, \"seed\": 1.5"), "workload.seed"},
        {CLASS("\"run_s\": 1"), "workload.classes[0].nodes: is missing"},
        {CLASS("\"nodes\": 0, \"run_s\": 1"), "workload.classes[0].nodes: expected"},
        {CLASS("\"nodes\": 1, \"run_s\": 1, \"estimate\": {\"factor\": 0.5}"),
         "workload.classes[0].estimate.factor: expected"},
        {CLASS("\"nodes\": 1, \"run_s\": 1}, {\"name\": \"a\", \"nodes\": 1, \"run_s\": 1"),
         "workload.classes[1].name: appears twice"},
        {"{" SOURCE ", " MODEL ", " DYNPIPE ", \"schedulers\": [\"esay\"]}",
         "schedulers[0]: unknown scheduler 'esay'; known: fifo, easy, slurm"},
        {"{" SOURCE ", " MODEL ", " DYNPIPE ", \"schedulers\": [\"easy\", \"easy\"]}", "schedulers[1]: 'easy' appears twice"},
        {"{" SOURCE ", " MODEL ", " DYNPIPE ", \"schedulers\": []}", "schedulers: expected"},
        {"{" SOURCE ", " MODEL ", " DYNPIPE ", \"slurm\": {\"bf_interval_s\": 0}}", "slurm.bf_interval_s: expected a number from 1"},
        {"{" SOURCE ", " MODEL ", " DYNPIPE ", \"release_latency_s\": -1}", "release_latency_s: expected"},
        {"{" SOURCE ", " MODEL "}", "dynpipe: expected an array"},
        {GROUP(""), "dynpipe[0].needs: expected either this or run"},
        {GROUP(NEEDS ", \"run\": \"x\""), "dynpipe[0].needs: expected either this or run"},
        {GROUP(NEEDS ", \"share\": 1.5"), "dynpipe[0].share: expected"},
        {GROUP(NEEDS ", \"class\": \"train\""), "dynpipe[0].class: the workload has no class 'train'"},
        {GROUP(NEEDS ", \"user\": 1.5"), "dynpipe[0].user: expected a whole number"},
        {GROUP(NEEDS ", \"single_release\": 1"), "dynpipe[0].single_release: expected true or false"},
        {GROUP("\"needs\": []"), "dynpipe[0].needs: expected an array of 1"},
        {GROUP("\"needs\": [{\"at\": 0, \"share\": 0.5}]"), "dynpipe[0].needs[0].at: shares of the run time rise"},
        {GROUP("\"needs\": [{\"at\": 0.5, \"share\": 1}]"), "dynpipe[0].needs[0].share: shares of the nodes fall"},
        {GROUP("\"needs\": [{\"at\": 0.5, \"share\": 0.5}, {\"at\": 0.5, \"share\": 0.4}]"), "dynpipe[0].needs[1].at"},
        {GROUP("\"needs\": [{\"at\": 0.5, \"share\": 0.5}, {\"at\": 0.6, \"share\": 0.6}]"), "dynpipe[0].needs[1].share"},
        {GROUP("\"run\": \"none.json\""), "mix.json: dynpipe[0].run: "},
        {"{" SOURCE ", \"workload\": {\"swf\": \"none.swf\"}, " DYNPIPE "}", "none.swf: No such file"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct dp_cluster_case c;
        struct dp_err err;

        if (read_text(wrong[i][0], NULL, &c, &err) == 0)
            fail_msg("accepted: %s", wrong[i][0]);
        if (!strstr(err.text, wrong[i][1]))
            fail_msg("\"%s\" is not in \"%s\"", wrong[i][1], err.text);
        assert_null(c.mix.job);
    }
    put_file("log.swf", "; MaxProcs: 8\n1 0 -1 10 2\n");
    {
        struct dp_cluster_case c;
        struct dp_err err;

        assert_int_equal(read_text("{" SOURCE ", \"workload\": {\"swf\": \"log.swf\"}, " DYNPIPE "}", NULL, &c, &err), -1);
        assert_non_null(strstr(err.text, "log.swf:2: 5 fields"));
    }
}

/* As many jobs as an archive has in a year, or in several: seconds for every scheduler. */
static void many_jobs_take_seconds(void **state)
{
    struct dp_cluster_case c;
    struct dp_cluster_times *t;

    (void)state;
    must_read("{" SOURCE ", \"nodes\": 256, \"workload\": {\"model\": \"lublin-feitelson\", \"seed\": 2, \"jobs\": 120000,"
              " \"load\": 0.7, \"estimate\": {\"factor\": {\"uniform\": [1, 10]}}}, " DYNPIPE "}", NULL, &c);
    t = calloc(c.mix.n_jobs, sizeof *t);
    assert_non_null(t);
    for (int k = 0; k < 2 * DP_CLUSTER_SCHEDULERS; k++) {
        enum dp_cluster_scheduler scheduler = (enum dp_cluster_scheduler)(k / 2);
        uint64_t begin = dp_thread_cpu_ns(), took;
        struct dp_cluster_stats stats;

        assert_int_equal(dp_cluster_run(&c.mix, &c.machine, scheduler, k % 2, t, NULL), 0);
        took = dp_thread_cpu_ns() - begin;
        assert_int_equal(dp_cluster_stats_fill(&c.mix, c.machine.nodes, k % 2, t, &stats, NULL), 0);
        print_message("# %u jobs, %s%s: %.2f s; %.0f s of waiting on average\n", c.mix.n_jobs, dp_cluster_schedulers[scheduler].name,
                      k % 2 ? ", shrinking" : "", (double)took * 1e-9, stats.wait_s.mean);
#ifndef DP_SANITIZED
        assert_true(took < 10 * S);
#endif
    }
    free(t);
    dp_cluster_case_release(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_workload_file),
    cmocka_unit_test(what_is_no_job_is_counted),
    cmocka_unit_test(wrong_files_are_refused),
    cmocka_unit_test(what_is_written_is_read_back), cmocka_unit_test(a_workload_file_keeps_its_columns),
    cmocka_unit_test(distributions_have_their_moments),
    cmocka_unit_test(jobs_of_lublin_and_feitelson),
    cmocka_unit_test(a_description),
    cmocka_unit_test(a_load_can_be_asked_for),
    cmocka_unit_test(a_workload_file_beside_the_description),
    cmocka_unit_test(a_curve_from_a_simulated_run),
    cmocka_unit_test(wrong_descriptions_are_refused),
    cmocka_unit_test(many_jobs_take_seconds),
};

int main(void)
{
    return cmocka_run_group_tests_name("cluster read", tests, make_folder, remove_folder);
}
