/* SPDX-License-Identifier: BSD-3-Clause */
/* See device_memory.h. A call of the driver's can hang where no signal ends it, so nobody waits for the looker but with a
 * deadline, and nobody waits for its end.
 */
#include "config.h"

#include "daemon/release/device_memory.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/child.h"
#include "daemon/release/empty_slot.h"
#include "daemon/release/procscan.h"
#include "daemon/release/rights.h"

/* ---- the looker ---- */

/* The library is not ours: what we may beyond opening the cards' files it may not. (Root's capabilities stay: there are cards
 * whose files are root's alone.) */
static _Noreturn void look_for_others(int fd, const char *library, const struct dp_device_files *files)
{
    const struct dp_rights same = {geteuid(), geteuid(), getegid(), NULL};
    static struct dp_cards cards;
    struct dp_err err = {0};
    char byte;

    prctl(PR_SET_NAME, "dynpiped-cards");
    if (dp_rights_become(&same, &err) < 0)
        _exit(1);
    while (recv(fd, &byte, 1, 0) == 1) {
        dp_nvml_look(library, files, &cards);
        if (send(fd, &cards, sizeof cards, MSG_NOSIGNAL) != (ssize_t)sizeof cards)
            break;
    }
    _exit(0);
}

static bool lives(struct dp_hung hung)
{
    return hung.pid && dp_process_start(hung.pid) == hung.start_ticks;
}

static void note_hung(struct dp_looker *l, struct dp_hung hung)
{
    l->hung = hung;
    snprintf(l->why, sizeof l->why, "the driver's library (NVML) does not answer: pid %u hangs in it", hung.pid);
}

void dp_looker_start(struct dp_looker *l, const char *library, const struct dp_device_files *files, struct dp_hung hung,
                     double deadline_s)
{
    pid_t maker = getpid();
    int fds[2];

    *l = (struct dp_looker){.fd = -1};
    if (!dp_nvml_has_any(files)) {
        snprintf(l->why, sizeof l->why, "no card of NVIDIA's is seen");
        return;
    }
    if (!library[0]) {
        snprintf(l->why, sizeof l->why, "LD_LIBRARY_PATH is set, so NVML is not loaded");
        return;
    }
    if (lives(hung)) {
        note_hung(l, hung);
        return;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0 || (l->pid = fork()) < 0) {
        l->pid = 0;
        snprintf(l->why, sizeof l->why, "no process could be made that asks NVML");
        return;
    }
    if (l->pid == 0) {
        dp_child_become(fds[1], deadline_s);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != maker)
            _exit(0);
        look_for_others(fds[1], library, files);
    }
    close(fds[1]);
    l->fd = fds[0];
}

void dp_looker_end(struct dp_looker *l)
{
    if (l->fd < 0)
        return;
    close(l->fd);
    l->fd = -1;
    kill(l->pid, SIGKILL);
}

static void fail(struct dp_cards *out, const char *why)
{
    out->state = DP_CARDS_FAILED;
    out->n = 0;
    snprintf(out->text, sizeof out->text, "%.150s", why);
}

void dp_looker_look(struct dp_looker *l, unsigned timeout_ms, struct dp_cards *out)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    ssize_t n;

    memset(out, 0, sizeof *out);
    if (l->fd < 0) {
        fail(out, l->why);
        return;
    }
    if (send(l->fd, "", 1, MSG_NOSIGNAL) != 1 || poll(&p, 1, (int)timeout_ms) < 0) {
        fail(out, "the process that asks NVML has ended");
        return;
    }
    if (!p.revents) {
        note_hung(l, (struct dp_hung){(uint32_t)l->pid, dp_process_start((uint32_t)l->pid)});
        dp_looker_end(l);
        fail(out, l->why);
        return;
    }
    n = recv(l->fd, out, sizeof *out, 0);
    if (n != (ssize_t)sizeof *out || out->n > DP_CARDS_MAX)
        fail(out, "the process that asks NVML has ended");
    out->text[sizeof out->text - 1] = '\0';
}

/* ---- before ---- */

static uint64_t *find_before(struct dp_cards_before *before, uint32_t minor)
{
    for (uint32_t i = 0; i < before->n && i < DP_CARDS_MAX; i++)
        if (before->card[i].minor == minor)
            return &before->card[i].used;
    return NULL;
}

void dp_cards_keep(struct dp_cards_before *before, const struct dp_cards *cards)
{
    for (uint32_t i = 0; i < cards->n; i++) {
        const struct dp_gpu *c = &cards->card[i];
        uint64_t *used = find_before(before, c->minor);

        if (c->is_unseen || c->is_hosts || c->n_pids)
            continue;
        if (used)
            *used = c->used < *used ? c->used : *used;
        else if (before->n < DP_CARDS_MAX) {
            before->card[before->n].minor = c->minor;
            before->card[before->n++].used = c->used;
        }
    }
}

/* ---- and after ---- */

/* returns: nobody is on it who may be the run's. n_others: + who is. */
static bool has_none_of_ours(const struct dp_empty_job *q, struct dp_proc_list *list, const struct dp_gpu *c, uint32_t *n_others,
                             struct dp_cards_proof *out)
{
    static const char *const why[] = {
        [DP_WHOSE_OWNERS] = "which is the owner's", [DP_WHOSE_ENDED] = "which has ended",
        [DP_WHOSE_UNKNOWN] = "of whom nothing can be told"};

    for (uint32_t i = 0; i < c->n_pids && i < DP_CARD_PIDS; i++) {
        enum dp_whose whose = dp_proc_whose(q, list, c->pid[i]);

        if (whose != DP_WHOSE_OTHERS) {
            snprintf(out->text, sizeof out->text, "nvidia%u: pid %u, %s, is on it", c->minor, c->pid[i], why[whose]);
            return false;
        }
        ++*n_others;
    }
    return true;
}

static bool is_card_back(const struct dp_empty_job *q, struct dp_proc_list *list, const struct dp_gpu *c, const uint64_t *before,
                         struct dp_cards_proof *out)
{
    uint32_t n_others = 0;

    if (c->is_unseen) {
        out->n_unseen++;
        return true;
    }
    if (!has_none_of_ours(q, list, c, &n_others, out))
        return false;
    if (n_others || !before || c->is_hosts) {
        out->n_processes++;
        return true;
    }
    if (c->used > *before + DP_CARDS_TOLERANCE) {
        snprintf(out->text, sizeof out->text, "nvidia%u: %llu MiB in use, %llu before the run, and no process is on it", c->minor,
                 (unsigned long long)(c->used >> 20), (unsigned long long)(*before >> 20));
        return false;
    }
    out->n_back++;
    return true;
}

static bool are_all_seen(const struct dp_cards_before *before, const struct dp_cards *cards, struct dp_cards_proof *out)
{
    for (uint32_t i = 0; i < before->n && i < DP_CARDS_MAX; i++) {
        bool found = false;

        for (uint32_t k = 0; k < cards->n && !found; k++)
            found = cards->card[k].minor == before->card[i].minor;
        if (!found) {
            snprintf(out->text, sizeof out->text, "nvidia%u: the driver does not see it any more", before->card[i].minor);
            return false;
        }
    }
    return true;
}

/* What could be looked at before the run is not let go because it cannot be now. */
static void judge_unseen(const struct dp_cards_before *before, const char *why, struct dp_cards_proof *out)
{
    out->is_back = before->n == 0;
    snprintf(out->word, sizeof out->word, "not_looked_at");
    snprintf(out->text, sizeof out->text, out->is_back ? "not looked at: %.120s" : "looked at before the run, and not now: %.120s", why);
}

static void say_what(struct dp_cards_proof *out)
{
    snprintf(out->word, sizeof out->word, "back:%u,processes:%u,unseen:%u", out->n_back, out->n_processes, out->n_unseen);
}

void dp_cards_prove(const struct dp_empty_job *q, struct dp_proc_list *list, unsigned timeout_ms, struct dp_cards_proof *out)
{
    struct dp_cards_before before = q->before; /* find_before() gives what can be written */
    static struct dp_cards cards;

    memset(out, 0, sizeof *out);
    if (q->looker->fd < 0 && !q->looker->hung.pid) {
        judge_unseen(&before, q->looker->why, out);
        return;
    }
    dp_looker_look(q->looker, timeout_ms, &cards);
    if (cards.state == DP_CARDS_NONE || (cards.state == DP_CARDS_SHUT && before.is_shut)) {
        judge_unseen(&before, cards.text, out);
        return;
    }
    snprintf(out->text, sizeof out->text, "%s", cards.text);
    out->is_back = cards.state == DP_CARDS_SEEN && are_all_seen(&before, &cards, out);
    for (uint32_t i = 0; i < cards.n && out->is_back; i++)
        out->is_back = is_card_back(q, list, &cards.card[i], find_before(&before, cards.card[i].minor), out);
    if (out->is_back)
        say_what(out);
}
