/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe watch: asks again and again, keeps what the curves need, and hands over to one of the two
 * ways to show it. */
#include "cli/runs/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/ask/fetch.h"
#include "cli/ask/run.h"
#include "cli/runs/changes.h"
#include "cli/show/json.h"
#include "cli/show/terminal.h"
#include "cli/show/text.h"
#include "common/clock.h"

/* A job that just started may not have a run yet; without --wait this is how long one is waited for. */
enum { BEGIN_S = 30 };

/* So long after its last worker a run counts as over: a batch script may start the next step. */
enum { EMPTY_S = 10 };

static bool is_after(uint64_t since_ns, unsigned seconds)
{
    return since_ns && dp_now_ns() - since_ns > seconds * 1000000000ull;
}

static void print_time(double t_s, char *out, size_t cap)
{
    time_t wall = time(NULL);
    struct tm tm;

    if (t_s >= 0 && t_s < 1e9)
        snprintf(out, cap, "%d:%02d:%02d", (int)(t_s / 3600), (int)(t_s / 60) % 60, (int)fmod(t_s, 60));
    else
        strftime(out, cap, "%H:%M:%S", localtime_r(&wall, &tm));
}

void dp_watch_time(const struct dp_watch *w, char *out, size_t cap)
{
    print_time(dp_history_now(w->run), out, cap);
}

/* Reasons to stay take turns for as long as nothing changes: each is told once. */
static bool is_known_decision(const struct dp_watch *w, const char *text)
{
    size_t kept = w->log.n < DP_WATCH_LINES ? w->log.n : DP_WATCH_LINES;

    for (size_t i = 0; i < kept && !strncmp(text, "decision", 8); i++) {
        if (dp_changes_same_but_numbers(w->log.line[i].text, text))
            return true;
    }
    return false;
}

static void log_line(void *arg, double at_s, enum dp_style style, const char *text)
{
    struct dp_watch *w = arg;
    size_t i = w->log.n % DP_WATCH_LINES;

    if (is_known_decision(w, text))
        return;
    w->log.n++;
    w->log.line[i].style = (int)style;
    print_time(isfinite(at_s) ? at_s : dp_history_now(w->run), w->log.line[i].time, sizeof w->log.line[i].time);
    snprintf(w->log.line[i].text, sizeof w->log.line[i].text, "%.*s",
             (int)dp_text_fit(text, DP_WATCH_TEXT / 4), text); /* a character has up to 4 bytes */
}

static json_t *next_document(struct dp_watch *w, struct dp_err *err)
{
    return w->replay ? dp_replay_next(w->replay, w->cli->from, !w->run, DP_QUERY_STATUS, err)
                     : dp_fetch_document(w->cli, DP_QUERY_STATUS, w->job_id, err);
}

/* No document: is that the end, a hole, or hopeless? */
static enum dp_watch_state no_document(struct dp_watch *w, struct dp_err *err)
{
    if (w->replay)
        return err->code == DP_OK ? DP_WATCH_OVER : DP_WATCH_ERROR;
    dp_text_clean(w->trouble, sizeof w->trouble, err->text);
    w->unknown = err->code == DP_EGONE ? w->unknown + 1 : 0;
    if (err->code == DP_EAUTH)
        return DP_WATCH_ERROR;
    if (w->run && w->unknown >= 2) /* one alone may be a daemon that just restarted */
        return DP_WATCH_OVER;
    if (w->silent_since_ns == 0)
        w->silent_since_ns = dp_now_ns();
    if (!w->run && !w->cli->wait && is_after(w->silent_since_ns, BEGIN_S))
        return DP_WATCH_ERROR;
    return DP_WATCH_NONE;
}

/* Who comes late wants to see the curve from its beginning: the report has samples of the whole run. */
static void fill_history(struct dp_watch *w)
{
    json_t *report = dp_fetch_document(w->cli, DP_QUERY_REPORT, w->job_id, NULL);

    if (report)
        dp_history_add(&w->history, report);
    json_decref(report);
}

enum dp_watch_state dp_watch_poll(struct dp_watch *w, struct dp_err *err)
{
    json_t *run = next_document(w, err);

    if (!run)
        return no_document(w, err);
    w->unknown = 0;
    w->silent_since_ns = 0;
    w->trouble[0] = '\0';
    if (!w->run && !w->replay)
        fill_history(w);
    json_decref(w->before);
    w->before = w->run;
    w->run = run;
    dp_history_add(&w->history, run);
    dp_changes(w->before, run, log_line, w);
    if (!dp_run_is_deserted(run))
        w->empty_since_ns = 0;
    else if (w->empty_since_ns == 0)
        w->empty_since_ns = dp_now_ns();
    if (w->replay)
        return DP_WATCH_NEW;
    return dp_run_is_over(run) || is_after(w->empty_since_ns, EMPTY_S) ? DP_WATCH_OVER : DP_WATCH_NEW;
}

enum dp_exit dp_cmd_watch(const struct dp_cli *cli)
{
    struct dp_watch *w = calloc(1, sizeof *w);
    enum dp_exit code;
    struct dp_err err;

    if (!w) {
        dp_err_set(&err, DP_ENOMEM, "no memory");
        return dp_cmd_fail(cli, &err);
    }
    w->cli = cli;
    if (cli->from && !(w->replay = dp_replay_open(cli->from, &err)))
        code = dp_cmd_fail(cli, &err);
    else if (dp_fetch_job(cli, &w->job_id, &err) < 0)
        code = dp_cmd_fail(cli, &err);
    else if (!cli->json && !cli->plain && dp_terminal_is_usable())
        code = dp_watch_screen(w);
    else
        code = dp_watch_plain(w);
    if (w->replay && w->replay != stdin)
        fclose(w->replay);
    json_decref(w->run);
    json_decref(w->before);
    free(w);
    return code;
}
