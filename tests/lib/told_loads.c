/* SPDX-License-Identifier: BSD-3-Clause */
/* A run of two workers whose loads are told, for tests of what a daemon makes of them: told_loads SOCKET JOB
 *
 * The run has eight layers, four for each worker at first, and waits for lines on stdin until that is closed:
 *
 *   report STEP PERCENT   both workers report a window up to that step, in which each of the first four layers took PERCENT of the
 *                         time of each of the others
 *
 * It says "welcome", and "hand-over ID LAYOUT" when it has made one that the daemon asked for. No layer moves anywhere: a hand-over is
 * two votes and two acknowledgements.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/run/layout.h"
#include "lib/control.h"

#define WORKERS 2u
#define LAYERS 8u
#define MICROBATCHES 16u
#define LAYER_NS 1000000u /* forward, of one of the last four; backward takes twice as long */
#define PATIENCE_MS 60000u /* for the first answer */

static struct dp_control *control[WORKERS];
static struct dp_layout layout;
static uint64_t step;

static bool join(const char *path, uint32_t job, struct dp_err *err)
{
    static struct dp_msg_hello m;

    layout = (struct dp_layout){.epoch = 1, .n_workers = WORKERS, .n_layers = LAYERS, .cut = {0, LAYERS / 2, LAYERS}};
    for (uint32_t r = 0; r < WORKERS; r++) {
        /* Of layers that differ by themselves no speed of a device is learnt. */
        m = (struct dp_msg_hello){.job_id = job, .rank = r, .n_workers = WORKERS, .n_layers = LAYERS, .epoch = 1,
                                  .steps_total = 1000000000, .microbatches = MICROBATCHES, .tokens_per_microbatch = 64,
                                  .schedule = 1, .blocks_differ = 1};
        memcpy(m.cut, layout.cut, (WORKERS + 1) * sizeof m.cut[0]);
        snprintf(m.device, sizeof m.device, "cpu");
        snprintf(m.options, sizeof m.options, "balance");
        control[r] = dp_control_create(path, &m, PATIENCE_MS, err);
        if (!control[r])
            return false;
    }
    return true;
}

static uint64_t stage_ns(const struct dp_msg_report *m)
{
    uint64_t ns = 0;

    for (uint32_t i = 0; i < m->n_layers; i++)
        ns += m->layer[i].fwd_ns + m->layer[i].bwd_input_ns + m->layer[i].bwd_weight_ns;
    return ns;
}

static void fill(struct dp_msg_report *m, uint32_t rank, uint32_t percent)
{
    *m = (struct dp_msg_report){.rank = rank, .epoch = layout.epoch, .step = step, .window_steps = 1, .loss = 3.0, .grad_norm = 1.0,
                                .first_layer = layout.cut[rank], .n_layers = layout.cut[rank + 1] - layout.cut[rank]};
    for (uint32_t i = 0; i < m->n_layers; i++) {
        uint64_t ns = m->first_layer + i < LAYERS / 2 ? (uint64_t)LAYER_NS * percent / 100 : LAYER_NS;

        m->layer[i] = (struct dp_layer_load){.fwd_ns = ns, .bwd_input_ns = ns, .bwd_weight_ns = ns, .state_bytes = 16000,
                                             .act_bytes = 1000, .params = 1000, .nnz = 1000};
    }
    m->busy_ns = MICROBATCHES * stage_ns(m);
}

static void report(uint32_t percent)
{
    static struct dp_msg_report m[WORKERS];
    uint64_t slowest = 0;

    for (uint32_t r = 0; r < WORKERS; r++) {
        fill(&m[r], r, percent);
        slowest = stage_ns(&m[r]) > slowest ? stage_ns(&m[r]) : slowest;
    }
    for (uint32_t r = 0; r < WORKERS; r++) {
        m[r].step_ns = (MICROBATCHES + WORKERS - 1) * slowest;
        m[r].wait_ns = m[r].step_ns - m[r].busy_ns;
        dp_control_state(control[r], step, 0, &layout);
        dp_control_report(control[r], &m[r]);
    }
}

/* Both are asked before both vote, and both have heard before both switch: as workers at one boundary do it. */
static void hand_over(void)
{
    const struct dp_msg_prepare *asked[WORKERS];
    const struct dp_msg_decision *decided[WORKERS];
    static struct dp_msg_prepare next;
    static uint64_t voted, answered;
    char text[64];

    for (uint32_t r = 0; r < WORKERS; r++)
        asked[r] = dp_control_prepare(control[r]);
    if (asked[0] && asked[1] && asked[0]->migration == asked[1]->migration && asked[0]->migration > voted) {
        next = *asked[0];
        voted = next.migration;
        for (uint32_t r = 0; r < WORKERS; r++)
            dp_control_vote(control[r], &(struct dp_msg_vote){.incarnation = next.incarnation, .migration = voted, .rank = r, .yes = 1,
                                                              .boundary = step});
    }
    for (uint32_t r = 0; r < WORKERS; r++)
        decided[r] = dp_control_decision(control[r], voted);
    if (voted == answered || !decided[0] || !decided[1])
        return;
    answered = voted;
    if (decided[0]->commit) {
        layout.epoch = next.epoch + 1;
        memcpy(layout.cut, next.cut, (WORKERS + 1) * sizeof layout.cut[0]);
        dp_layout_format(&layout, text, sizeof text);
        printf("hand-over %llu %s\n", (unsigned long long)answered, text);
    }
    for (uint32_t r = 0; r < WORKERS; r++) {
        dp_control_state(control[r], step, 0, &layout);
        dp_control_ack(control[r], &(struct dp_msg_decision_ack){answered, r, layout.epoch, 5000000, 3000000, 0});
        dp_control_prepare_done(control[r]);
    }
}

/* A line of stdin, if there is one. returns false at its end. */
static bool listen(void)
{
    unsigned long long to;
    unsigned percent;
    char line[64];
    size_t n = 0;

    if (poll(&(struct pollfd){.fd = STDIN_FILENO, .events = POLLIN}, 1, 0) <= 0)
        return true;
    do { /* byte by byte: what is behind the line stays where poll() sees it */
        if (n + 1 == sizeof line || read(STDIN_FILENO, &line[n], 1) <= 0)
            return false;
    } while (line[n++] != '\n');
    line[n] = '\0';
    if (sscanf(line, "report %llu %u", &to, &percent) != 2) {
        printf("not understood: %s", line);
        return false;
    }
    step = to;
    report(percent);
    return true;
}

int main(int argc, char **argv)
{
    struct dp_err err = {0};

    if (argc != 3)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!join(argv[1], (uint32_t)strtoul(argv[2], NULL, 10), &err)) {
        printf("error %s\n", err.text);
        return 1;
    }
    puts("welcome");
    do {
        for (uint32_t r = 0; r < WORKERS; r++)
            dp_control_wait(control[r], 5);
        hand_over();
    } while (listen());
    for (uint32_t r = 0; r < WORKERS; r++)
        dp_control_destroy(control[r]);
    return 0;
}
