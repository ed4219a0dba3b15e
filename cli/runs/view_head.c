/* SPDX-License-Identifier: BSD-3-Clause */
/* Head of the picture of a run: see view.h. */
#include <math.h>
#include <stdio.h>

#include "cli/ask/run.h"
#include "cli/runs/view.h"
#include "cli/show/bars.h"
#include "cli/show/json.h"
#include "cli/show/text.h"

enum { TEXT = 256 };

static const char *dot(void)
{
    return dp_text_is_utf8() ? " · " : ", ";
}

static void title(struct dp_canvas *c, const json_t *run)
{
    char job[32], name[TEXT], right[TEXT * 3], user[64], mode[32], policy[64], node[64];

    dp_canvas_put(c, DP_BOLD, "DynPipe  ");
    dp_canvas_put(c, DP_CYAN, "job %s", dp_json_text(job, sizeof job, run, "job_id|job.id", "?"));
    dp_canvas_put(c, DP_PLAIN, "  %s", dp_json_text(name, sizeof name, run, "job_name|name|job.name", ""));
    snprintf(right, sizeof right, "%s%s%s%spolicy %s%s%s", dp_run_user(user, sizeof user, run), dot(),
             dp_json_text(mode, sizeof mode, run, "mode", "-"), dot(),
             dp_json_text(policy, sizeof policy, run, "policy", "-"), dot(),
             dp_json_text(node, sizeof node, run, "node|job.batch_host", "-"));
    dp_canvas_to(c, c->column + 1);
    dp_canvas_right(c, c->columns, DP_DIM, right);
    dp_canvas_line(c);
}

static double slowest_step_s(const json_t *run)
{
    const json_t *w;
    size_t i;
    double ms = dp_json_number(run, "step_ms");

    json_array_foreach(dp_json_list(run, "workers"), i, w)
        ms = fmax(ms, dp_json_number(w, "step_ms"));
    return ms / 1e3;
}

static void progress(struct dp_canvas *c, const json_t *run)
{
    double step = dp_json_number(run, "step"), total = dp_json_number(run, "steps_total");
    double left = (total - step) * slowest_step_s(run);
    char state[64], a[32], b[32], right[TEXT], bar[DP_BAR_BYTES(512)], rest[DP_BAR_BYTES(512)];
    size_t width, used;

    dp_canvas_put(c, dp_run_state_style(run), "%s", dp_json_text(state, sizeof state, run, "state", "?"));
    if (dp_json_flag(run, "paused", false) && !dp_json_is(run, "state", "paused"))
        dp_canvas_put(c, DP_YELLOW, " (paused)");
    dp_canvas_to(c, 10);
    dp_canvas_put(c, DP_PLAIN, "step %s of %s ", dp_text_count(a, sizeof a, step),
                  dp_text_count(b, sizeof b, total));
    if (isfinite(left) && left > 0 && !dp_run_is_over(run))
        snprintf(right, sizeof right, " %5.1f %%  %s left", 100 * step / total,
                 dp_text_seconds(b, sizeof b, left < 100 ? floor(left) : left));
    else
        snprintf(right, sizeof right, " %s", dp_text_percent(b, sizeof b, step / total));
    dp_canvas_to(c, 32);
    width = c->columns > c->column + dp_text_width(right) ? c->columns - c->column - dp_text_width(right) : 0;
    width = width > 512 ? 512 : width;
    used = dp_bar(bar, sizeof bar, step / total, width);
    dp_bar_rest(rest, sizeof rest, width - used);
    dp_canvas_put(c, DP_BLUE, "%s", bar);
    dp_canvas_put(c, DP_DIM, "%s", rest);
    dp_canvas_put(c, DP_PLAIN, "%s", right);
    dp_canvas_line(c);
}

/* "label value   " with the value bright. */
static void field(struct dp_canvas *c, const char *label, const char *value)
{
    dp_canvas_put(c, DP_DIM, "%s ", label);
    dp_canvas_put(c, DP_BOLD, "%s", value);
    dp_canvas_put(c, DP_PLAIN, "   ");
}

static void model(struct dp_canvas *c, const json_t *run)
{
    double loss = dp_json_number(run, "loss"), bpb = dp_run_bits_per_byte(run);
    double sparsity = dp_json_number(run, "sparsity"), validation = dp_json_number(run, "eval_loss");
    char text[64], frozen[64], bar[DP_BAR_BYTES(16)], rest[DP_BAR_BYTES(16)];
    bool is_frozen = dp_run_frozen(run, frozen, sizeof frozen);

    snprintf(text, sizeof text, "%.4f", loss);
    field(c, "loss", isfinite(loss) ? text : "-");
    if (isfinite(validation)) {
        snprintf(text, sizeof text, "%.4f", validation);
        field(c, "validation", text);
    }
    if (isfinite(bpb)) {
        snprintf(text, sizeof text, "%.3f", bpb);
        field(c, "bits/byte", text);
    }
    if (isfinite(sparsity)) {
        dp_canvas_put(c, DP_DIM, "sparsity ");
        if (!is_frozen) { /* there is room for one of the two */
            dp_bar_rest(rest, sizeof rest, 16 - dp_bar(bar, sizeof bar, sparsity, 16));
            dp_canvas_put(c, DP_MAGENTA, "%s", bar);
            dp_canvas_put(c, DP_DIM, "%s ", rest);
        }
        dp_canvas_put(c, DP_BOLD, "%s   ", dp_text_percent(text, sizeof text, sparsity));
    }
    if (is_frozen)
        field(c, "frozen", frozen);
    dp_canvas_line(c);
}

static void speed(struct dp_canvas *c, const json_t *run)
{
    double now = dp_json_number(run, "tokens_per_s"), gain = dp_run_gain(run);
    double held = dp_run_devices(run), start = dp_run_devices_at_start(run);
    char text[128], a[32], b[32];

    field(c, "tokens/s", dp_text_count(a, sizeof a, now));
    if (isfinite(gain))
        dp_canvas_put(c, DP_DIM, "(%.0f %% of a fixed layout)   ", 100 * gain);
    field(c, "per device", dp_text_count(a, sizeof a, now / held));
    if (isfinite(gain * start / held))
        dp_canvas_put(c, DP_DIM, "(%.0f %%)   ", 100 * gain * start / held);
    snprintf(text, sizeof text, held > start ? "%s, %s at the start" : "%s of %s", dp_text_count(a, sizeof a, held),
             dp_text_count(b, sizeof b, start));
    dp_canvas_put(c, DP_DIM, "devices ");
    dp_canvas_put(c, held < start ? DP_GREEN : DP_BOLD, "%s", text);
    dp_canvas_line(c);
}

/* When the run ends and what it holds until then, beside a fixed layout and all devices balanced. */
static void saving(struct dp_canvas *c, const json_t *run)
{
    static const char *const way[][2] = {{"run", ""}, {"fixed", "fixed layout "}, {"balanced", "all balanced "}};
    char time[32], gpus[32];

    if (!isfinite(dp_json_number(run, "saving.fixed.time_s")))
        return;
    dp_canvas_put(c, DP_DIM, "%s", dp_json_flag(run, "saving.is_forecast", false) ? "will take " : "took      ");
    for (size_t i = 0; i < 3; i++) {
        json_t *of = dp_json_get(dp_json_get(run, "saving"), way[i][0]);

        dp_canvas_put(c, DP_DIM, "%s", way[i][1]);
        dp_canvas_put(c, i ? DP_PLAIN : DP_BOLD, i ? "%s, %s" : "%s, %s device-s",
                      dp_text_seconds(time, sizeof time, dp_json_number(of, "time_s")),
                      dp_text_count(gpus, sizeof gpus, dp_json_number(of, "device_s")));
        dp_canvas_put(c, DP_PLAIN, "%s", i < 2 ? "   " : "");
    }
    dp_canvas_line(c);
}

/* Without its journal a run trains on as it is: whoever waits for a release has to know. */
static void journal(struct dp_canvas *c, const json_t *run)
{
    char why[TEXT * 2];

    if (!*dp_json_text(why, sizeof why, run, "journal_error", ""))
        return;
    dp_canvas_wrap(c, 0, DP_RED, 2, "the daemon cannot write the run's journal, so no layer moves and no node is given back:");
    dp_canvas_wrap(c, 2, DP_RED, 2, why);
}

/* Host memory of each node that went back to Slurm, or why none did. */
static void memory(struct dp_canvas *c, const json_t *run)
{
    double start = dp_json_number(run, "memory.start_mb"), given = dp_json_number(run, "memory.given_mb");
    char from[32], to[32], why[TEXT];

    if (!isfinite(start))
        return;
    dp_json_text(why, sizeof why, run, "memory.text", "");
    if (!(given > 0) && !*why)
        return;
    dp_canvas_put(c, DP_DIM, "memory ");
    if (given > 0)
        dp_canvas_put(c, DP_GREEN, "%s of %s per node", dp_text_bytes(to, sizeof to, given * 1048576),
                      dp_text_bytes(from, sizeof from, start * 1048576));
    else
        dp_canvas_put(c, DP_PLAIN, "not given back: %s", why);
    dp_canvas_line(c);
}

void dp_view_trainer(struct dp_canvas *c, const json_t *run)
{
    char name[TEXT], why[TEXT];

    dp_json_text(name, sizeof name, run, "trainer.name", "");
    if (!*name || dp_json_is(run, "trainer.name", "dynpipe-worker"))
        return;
    field(c, "trainer", name);
    if (*dp_json_text(why, sizeof why, run, "trainer.observed", ""))
        dp_canvas_put(c, DP_YELLOW, "observed: %s", why);
    dp_canvas_line(c);
}

void dp_view_head(struct dp_canvas *c, const json_t *run)
{
    title(c, run);
    dp_view_trainer(c, run);
    progress(c, run);
    journal(c, run);
    model(c, run);
    speed(c, run);
    saving(c, run);
    memory(c, run);
}
