/* SPDX-License-Identifier: BSD-3-Clause */
/* A trainer that is not ours, and its daemon: both say anything at any time. An input is a list of what they do. The trainer calls
 * libdynpipe with arguments that may be nonsense; the daemon sends frames that may be no frames, decisions of what was never
 * prepared, plans of other shapes. The library may not crash, and:
 *   - the layout changes in a dynpipe_decide() that says COMMIT and nowhere else; to what was prepared there, after a yes, and where
 *     the daemon has said so;
 *   - who said no to a hand-over says yes to it, or to an older one, never again;
 *   - whatever it sends can be read, and whatever plan it gives out is one. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/dynpipe.h"
#include "tests/unit/worker/fakedaemon.h"

const char fuzz_name[] = "fuzz_trainer";

#define MAX_DEEDS 96
#define BOX 8192        /* room for a struct of any size that the library believes */
#define UNTOUCHED 0xa5
#define SEAT 1          /* of a run that makes sense: three workers, eight layers */

/* ---- an input ---- */

static struct {
    const uint8_t *at, *end;
} input;

static uint8_t u8(void)
{
    return input.at < input.end ? *input.at++ : 0;
}

static uint64_t raw(uint32_t bytes)
{
    uint64_t v = 0;

    while (bytes-- > 0)
        v = v << 8 | u8();
    return v;
}

/* Small, or anything. */
static uint64_t number(void)
{
    uint8_t first = u8();

    return first < 240 ? first : raw(1u << (first & 3));
}

static double real(void)
{
    uint64_t bits = raw(8);
    double v;

    memcpy(&v, &bits, sizeof v);
    return u8() & 1 ? v : (double)(int64_t)bits / 1e6;
}

/* Up to 255 bytes, or NULL. */
static const char *text(void)
{
    static char out[256];
    uint8_t n = u8();

    if (n == 255)
        return NULL;
    for (uint8_t i = 0; i < n; i++)
        out[i] = (char)u8();
    out[n] = '\0';
    return out;
}

/* ---- the clock: the real one, and what is skipped of it ---- */

static time_t skipped_s;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = __real_clock_gettime(id, t);

    if (id == CLOCK_MONOTONIC)
        t->tv_sec += skipped_s;
    return rc;
}

/* ---- what was said, and what may come of it ---- */

struct decision {
    uint64_t migration, epoch;
    bool is_commit;
};

static struct {
    struct dynpipe *d;
    uint32_t rank;
    uint64_t epoch;          /* commits so far */
    struct dp_layout layout; /* in force */
    uint64_t prepared;       /* the newest that a plan was given out for, and that plan; 0: none */
    uint32_t planned[DYNPIPE_MAX_WORKERS + 1];
    uint64_t yes;            /* the newest that the trainer said yes to */
    uint64_t committed, refused; /* the newest that was; the newest that a VOTE said no to */
    uint64_t doubt;          /* in doubt about it; 0: about nothing */
    struct decision said[MAX_DEEDS]; /* by the daemon */
    uint32_t n_said;
    bool has_ended;
} game;

/* How far the inputs come: told at the end. */
static struct {
    unsigned long long inputs, plans, doubts, commits, ends, leaves, proposals;
} reached;

static struct fake_daemon daemon_end;
static struct fake_peer peer = {.fd = -1};

static void check(bool holds, const char *what)
{
    if (!holds)
        fuzz_die(what);
}

/* epoch: of a commit. */
static bool is_said(uint64_t migration, bool is_commit, uint64_t epoch)
{
    for (uint32_t i = 0; i < game.n_said; i++) {
        const struct decision *s = &game.said[i];

        if (s->migration == migration && s->is_commit == is_commit && (!is_commit || s->epoch == epoch))
            return true;
    }
    return false;
}

static void note_decision(const struct dp_msg_decision *m)
{
    game.said[game.n_said++] = (struct decision){m->migration, m->epoch, m->commit};
}

static void check_layout(void)
{
    uint32_t cut[DYNPIPE_MAX_WORKERS + 1];

    check(dynpipe_layout(game.d, cut) == game.layout.n_workers, "the number of workers changed");
    check(!memcmp(cut, game.layout.cut, (game.layout.n_workers + 1) * sizeof cut[0]), "the layout changed without a commit");
}

/* ---- the daemon ---- */

static void hear_vote(struct dp_reader *r)
{
    struct dp_msg_vote m;

    check(dp_msg_vote_decode(r, &m, NULL) == 0, "a VOTE that nobody can read");
    check(m.rank == game.rank, "a vote for another worker");
    if (!m.yes && m.migration > game.refused)
        game.refused = m.migration;
    check(!m.yes || m.migration > game.refused, "a yes after a no");
    check(!m.yes || (m.migration == game.yes && m.migration == game.prepared), "a yes that the trainer did not say");
}

static void hear_hello(struct dp_reader *r)
{
    struct dp_msg_hello m;
    struct dp_layout l;

    check(dp_msg_hello_decode(r, &m, NULL) == 0, "a HELLO that nobody can read");
    l = (struct dp_layout){.n_workers = m.n_workers, .n_layers = m.n_layers};
    memcpy(l.cut, m.cut, sizeof l.cut);
    check(m.rank == game.rank && dp_layout_check(&l, NULL) == 0, "a HELLO with a wrong layout");
}

static void hear(const struct dp_header *h, const uint8_t *body)
{
    static struct dp_msg_report report;
    static struct dp_msg_expect expect;
    struct dp_msg_goodbye goodbye;
    struct dp_msg_event event;
    struct dp_reader r;

    dp_reader_init(&r, body, h->body_len);
    switch (h->type) {
    case DP_MSG_HELLO:
        hear_hello(&r);
        break;
    case DP_MSG_VOTE:
        hear_vote(&r);
        break;
    case DP_MSG_REPORT:
        check(dp_msg_report_decode(&r, &report, NULL) == 0, "a REPORT that nobody can read");
        break;
    case DP_MSG_EXPECT:
        check(dp_msg_expect_decode(&r, &expect, NULL) == 0, "an EXPECT that nobody can read");
        break;
    case DP_MSG_EVENT:
        check(dp_msg_event_decode(&r, &event, NULL) == 0, "an EVENT that nobody can read");
        break;
    case DP_MSG_GOODBYE:
        check(dp_msg_goodbye_decode(&r, &goodbye, NULL) == 0, "a GOODBYE that nobody can read");
        break;
    default:
        check(h->type == DP_MSG_DECISION_ACK || h->type == DP_MSG_PONG, "a message that is no worker's");
    }
}

/* All that the library has sent, and the connection that it opens. */
static void serve(void)
{
    struct dp_header h;
    const uint8_t *body;
    int rc;

    if (peer.fd < 0 && fake_accept(&daemon_end, &peer, 0) == 0) {
        check(fake_next(&peer, 0, &h, &body) == 1 && h.type == DP_MSG_HELLO, "a connection without a HELLO");
        hear(&h, body);
        fake_welcome(&peer, DP_VERDICT_OK, "", "");
    }
    if (peer.fd < 0)
        return;
    while ((rc = fake_next(&peer, 0, &h, &body)) == 1)
        hear(&h, body);
    if (rc < 0)
        fake_close(&peer);
}

/* A layout of a daemon: most have the run's shape. */
static void some_layout(uint32_t *n_workers, uint32_t *n_layers, uint32_t *cut, uint8_t *gone)
{
    uint8_t how = u8();
    uint32_t last = 0;

    *n_workers = how & 1 ? 1 + (uint32_t)raw(2) % DP_MAX_WORKERS : game.layout.n_workers;
    *n_layers = how & 2 ? 1 + (uint32_t)raw(2) % DP_MAX_LAYERS : game.layout.n_layers;
    for (uint32_t i = 1; i < *n_workers; i++) {
        uint32_t c = u8();

        if (!(how & 4)) /* in order */
            c = last += c % (*n_layers - last + 1);
        cut[i] = c;
    }
    cut[*n_workers] = how & 8 ? u8() : *n_layers;
    if (how & 16)
        gone[u8() % *n_workers] = 2;
    if (how & 32)
        gone[u8() % *n_workers] = 1;
}

static uint64_t some_migration(void)
{
    uint8_t how = u8();

    return how < 128 ? game.prepared + 1 : how < 200 ? game.prepared : number();
}

static void send_prepare(void)
{
    struct dp_msg_prepare m = {.incarnation = u8() & 3};

    m.migration = some_migration();
    m.epoch = game.epoch;
    if (u8() > 200)
        m.epoch += number();
    some_layout(&m.n_workers, &m.n_layers, m.cut, m.gone);
    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &m);
}

static void send_decision(void)
{
    struct dp_msg_decision m = {.incarnation = u8() & 3};

    m.migration = some_migration();
    m.commit = u8();
    m.commit = m.commit < 250 ? m.commit & 1 : m.commit;
    m.epoch = game.epoch + m.commit;
    if (u8() > 200)
        m.epoch = number();
    note_decision(&m);
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &m);
}

static void send_proposal(void)
{
    struct dp_msg_proposal m = {.incarnation = u8() & 3};

    m.number = number();
    m.now_ns = real();
    m.then_ns = real();
    some_layout(&m.n_workers, &m.n_layers, m.cut, m.gone);
    FAKE_SEND(&peer, proposal, DP_MSG_PROPOSAL, &m);
}

static void send_regroup(void)
{
    struct dp_msg_regroup m = {.incarnation = u8() & 3};

    m.migration = some_migration();
    m.epoch = game.epoch + number();
    m.go = u8();
    some_layout(&m.n_workers, &m.n_layers, m.cut, m.gone);
    FAKE_SEND(&peer, regroup, DP_MSG_REGROUP, &m);
}

/* Any type with any body; what it decides is noted. */
static void send_anything(void)
{
    uint8_t body[256] = {0}, n;
    uint16_t type = u8();
    struct dp_msg_decision m;
    struct dp_reader r;

    n = u8();
    for (uint32_t i = 0; i < n; i++)
        body[i] = u8();
    dp_reader_init(&r, body, n);
    if (type == DP_MSG_DECISION && dp_msg_decision_decode(&r, &m, NULL) == 0)
        note_decision(&m);
    if (u8() & 1)
        peer.version = u8() % (DP_PROTO_VERSION + 2);
    fake_send_body(&peer, type, body, n);
    peer.version = 0;
}

static void send_small(uint8_t which)
{
    struct dp_msg_finish finish = {.migration = some_migration()};
    struct dp_msg_limit limit = {.left_ms = number()};
    struct dp_msg_save save = {.stop = u8() & 3};
    struct dp_msg_ping ping = {.number = number()};

    switch (which & 3) {
    case 0:
        FAKE_SEND(&peer, finish, DP_MSG_FINISH, &finish);
        break;
    case 1:
        FAKE_SEND(&peer, limit, DP_MSG_LIMIT, &limit);
        break;
    case 2:
        FAKE_SEND(&peer, save, DP_MSG_SAVE, &save);
        break;
    default:
        FAKE_SEND(&peer, ping, DP_MSG_PING, &ping);
    }
}

static void daemon_does(uint8_t what)
{
    switch (what) {
    case 0:
    case 1:
        send_prepare();
        break;
    case 2:
    case 3:
        send_decision();
        break;
    case 4:
        send_small(u8());
        break;
    case 5:
        send_proposal();
        break;
    case 6:
        send_regroup();
        break;
    case 7:
        send_anything();
        break;
    case 8:
        fake_welcome(&peer, u8() % 6, "", "so it is");
        break;
    case 9:
        fake_send_raw(&peer, "xxxxxxxxxxxxxxxx", 1 + (u8() & 15)); /* no magic */
        break;
    default:
        fake_close(&peer);
    }
}

/* ---- the trainer ---- */

static uint8_t box[BOX];

/* A struct of the caller: its size is right, or anything. */
static void set_size(size_t right)
{
    uint32_t size = u8() < 220 ? (uint32_t)right : (uint32_t)number();

    memcpy(box, &size, sizeof size);
}

static const struct dynpipe_load *some_loads(void)
{
    static struct dynpipe_load load[DYNPIPE_MAX_LAYERS];
    uint64_t v = number();

    for (uint32_t i = 0; i < DYNPIPE_MAX_LAYERS; i++)
        load[i] = (struct dynpipe_load){v, v + i, v * i, v, i & 1, v, v / 2};
    return u8() == 255 ? NULL : load;
}

static void report(void)
{
    struct dynpipe_step *s = (struct dynpipe_step *)(void *)box;
    static uint64_t step;
    uint32_t n = game.layout.cut[game.rank + 1] - game.layout.cut[game.rank];
    const struct dynpipe_load *load;
    bool is_null;
    int rc;

    memset(box, 0, sizeof box);
    set_size(sizeof *s);
    step = u8() < 220 ? step + 1 : number();
    s->step = step;
    s->zero = u8() > 250;
    s->wall_ns = number();
    s->wait_ns = number();
    s->optimizer_ns = number();
    s->busy_ns = number();
    s->mem_bytes = number();
    s->loss = real();
    s->grad_norm = real();
    if (u8() > 230)
        n = (uint32_t)number();
    is_null = u8() == 255;
    load = some_loads();
    rc = dynpipe_report(game.d, is_null ? NULL : s, load, n);
    check(rc >= -1 && rc <= 1, "dynpipe_report");
}

/* A plan that was given out: a layout of this run. returns: whether the caller's struct had room for all of it. */
static bool check_plan(const struct dynpipe_plan *p)
{
    struct dp_layout l;

    if (p->size < sizeof *p)
        return false;
    check(p->n_workers == game.layout.n_workers && p->n_layers == game.layout.n_layers, "a plan of another run");
    l = (struct dp_layout){.n_workers = p->n_workers, .n_layers = p->n_layers};
    memcpy(l.cut, p->cut, (l.n_workers + 1) * sizeof l.cut[0]);
    memcpy(l.gone, p->gone, l.n_workers);
    check(dp_layout_check(&l, NULL) == 0, "a plan that is no layout");
    check(!memcmp(p->old_cut, game.layout.cut, (l.n_workers + 1) * sizeof l.cut[0]), "a plan from another layout");
    check(p->n_moves == dp_layout_moves(&game.layout, &l, NULL), "a plan with a wrong number of moves");
    return true;
}

static struct dynpipe_plan *plan_box(void)
{
    memset(box, UNTOUCHED, sizeof box);
    set_size(sizeof(struct dynpipe_plan));
    return u8() == 255 ? NULL : (struct dynpipe_plan *)(void *)box;
}

static void check_untouched(const struct dynpipe_plan *p)
{
    for (size_t i = p && p->size > sizeof p->size ? p->size : sizeof p->size; i < sizeof box; i++)
        check(box[i] == UNTOUCHED, "a plan is longer than its caller's");
}

static void prepare(void)
{
    struct dynpipe_plan *p = plan_box();
    uint64_t m = u8() < 200 ? some_migration() : dynpipe_pending(game.d);
    int rc = dynpipe_prepare(game.d, m, p, 0);

    check(rc == 0 || rc == 1, "dynpipe_prepare");
    check(!rc || (p && m), "a plan without a struct for it");
    check_untouched(p);
    if (!rc)
        return;
    check(p->size < offsetof(struct dynpipe_plan, migration) + sizeof p->migration || p->migration == m, "a plan of another hand-over");
    reached.plans++;
    game.prepared = m;
    memset(game.planned, 0xff, sizeof game.planned);
    if (check_plan(p))
        memcpy(game.planned, p->cut, (p->n_workers + 1) * sizeof p->cut[0]);
}

static void take_commit(uint64_t m)
{
    uint32_t n = dynpipe_layout(game.d, game.layout.cut);

    check(m == game.yes && m == game.prepared, "a commit of what the trainer said no yes to");
    check(is_said(m, true, game.epoch + 1), "a commit that the daemon did not say");
    check(m > game.refused, "a commit of what was refused");
    check(game.planned[0] || !memcmp(game.layout.cut, game.planned, (n + 1) * sizeof game.planned[0]), "not the plan that was given out");
    reached.commits++;
    game.epoch++;
    game.committed = m;
}

static void decide(void)
{
    static const uint8_t digest[32] = {1, 2, 3};
    uint64_t m = u8() < 200 ? game.prepared : number();
    int yes = u8() & 3, rc;
    bool has_digest = u8() < 240;

    if (yes && has_digest && m == game.prepared && m > game.refused)
        game.yes = m;
    rc = dynpipe_decide(game.d, m, yes, has_digest ? digest : NULL, text(), 0);
    check(rc == DYNPIPE_ABORT || rc == DYNPIPE_COMMIT || rc == DYNPIPE_AGAIN || rc == DYNPIPE_END, "dynpipe_decide");
    check(!game.has_ended || rc == DYNPIPE_END, "a worker that has to end goes on");
    check(rc != DYNPIPE_END || dynpipe_why(game.d)[0], "no reason for an end");
    check(!m || m != game.doubt || rc != DYNPIPE_ABORT || is_said(m, false, 0), "an abort that the daemon did not say");
    if (rc == DYNPIPE_AGAIN || m == game.doubt)
        game.doubt = rc == DYNPIPE_AGAIN ? m : 0;
    reached.doubts += rc == DYNPIPE_AGAIN;
    reached.ends += rc == DYNPIPE_END && !game.has_ended;
    game.has_ended |= rc == DYNPIPE_END;
    if (rc == DYNPIPE_COMMIT && m != game.committed)
        take_commit(m);
}

static void ask_state(void)
{
    int rc = dynpipe_state(game.d);

    check(rc >= DYNPIPE_END && rc <= DYNPIPE_LEAVE, "dynpipe_state");
    check(!game.has_ended || rc == DYNPIPE_END, "a worker that has to end goes on");
    reached.ends += rc == DYNPIPE_END && !game.has_ended;
    reached.leaves += rc == DYNPIPE_LEAVE;
    game.has_ended |= rc == DYNPIPE_END;
}

static void ask_proposal(void)
{
    struct dynpipe_plan *p = plan_box();
    int rc = dynpipe_proposal(game.d, p);

    check(rc == 0 || (rc == 1 && p), "dynpipe_proposal");
    check_untouched(p);
    if (rc)
        check_plan(p);
    reached.proposals += (unsigned)rc;
}

static void ask_the_rest(void)
{
    double left = dynpipe_time_left(game.d);
    int save = dynpipe_take_save(game.d);

    check(isnan(left) || left >= 0, "dynpipe_time_left");
    check(save >= 0 && save <= 2, "dynpipe_take_save");
    check(dynpipe_why(game.d) != NULL, "dynpipe_why");
    check(dynpipe_is_connected(game.d) || dynpipe_fd(game.d) == -1, "dynpipe_fd");
    check(dynpipe_leads(game.d) <= 1, "dynpipe_leads");
    dynpipe_forget(game.d);
    dynpipe_wait(game.d, 0);
}

static void say_done(void)
{
    uint64_t m = some_migration(), pause_ns = number();

    dynpipe_done(game.d, m, pause_ns, number());
}

static void expect(void)
{
    uint64_t step = number();
    uint32_t first = (uint32_t)number(), n = (uint32_t)number();
    int rc = dynpipe_expect(game.d, step, first, some_loads(), n);

    check(rc == 0 || (rc == -1 && dynpipe_why(game.d)[0]), "dynpipe_expect");
}

static void event(void)
{
    int kind = u8() < 200 ? u8() & 7 : (int)raw(4), rc;
    double value = real();
    uint64_t step = number();

    rc = dynpipe_event(game.d, kind, step, value, text());
    check(rc == 0 || (rc == -1 && dynpipe_why(game.d)[0]), "dynpipe_event");
}

static void trainer_does(uint8_t what)
{
    switch (what) {
    case 0:
    case 1:
        report();
        break;
    case 2:
    case 3:
        prepare();
        break;
    case 4:
    case 5:
        decide();
        break;
    case 6:
        say_done();
        break;
    case 7:
        ask_state();
        break;
    case 8:
        ask_proposal();
        break;
    case 9:
        expect();
        break;
    case 10:
        event();
        break;
    case 11:
        ask_the_rest();
        break;
    default:
        dynpipe_poll(game.d);
    }
}

/* ---- joining ---- */

static void no_line(void *arg, int level, const char *line)
{
    check(!arg && level >= 0 && level <= 3 && line, "a line for people");
}

static void nonsense(struct dynpipe_run *r)
{
    uint32_t *const field[] = {&r->traits, &r->rank, &r->n_workers, &r->n_layers, &r->schedule, &r->microbatches,
                               &r->tokens_per_microbatch, &r->n_changes, &r->leave_s, &r->doubt_s, &r->zero};
    static struct dynpipe_change change[DYNPIPE_MAX_LAYERS];
    static uint32_t cut[DYNPIPE_MAX_WORKERS + 1];

    for (uint8_t n = u8() & 7; n > 0; n--) {
        uint32_t *which = field[u8() % (sizeof field / sizeof field[0])];

        *which = (uint32_t)number();
    }
    for (uint32_t i = 0; i <= DYNPIPE_MAX_WORKERS; i++)
        cut[i] = i < 16 ? u8() : 255;
    for (uint32_t i = 0; i < DYNPIPE_MAX_LAYERS; i++) {
        change[i] = (struct dynpipe_change){.step = i, .value = 0.5, .kind = 1};
        if (i >= 4)
            continue;
        change[i].step = number();
        change[i].value = real();
        change[i].kind = u8() & 3;
    }
    r->step = number();
    r->steps_total = number();
    r->change = u8() & 1 ? change : NULL;
    r->cut = u8() & 3 ? r->cut : u8() & 3 ? cut : NULL;
}

/* returns: false: refused, as it should be. */
static bool join(void)
{
    static const uint32_t cut[DYNPIPE_MAX_WORKERS + 1] = {0, 3, 6, 8}; /* as long as any number of workers needs that is believed */
    struct dynpipe_run *r = (struct dynpipe_run *)(void *)box;
    char why[128] = "";

    memset(box, 0, sizeof box);
    *r = (struct dynpipe_run){.traits = DYNPIPE_CAN_MOVE | DYNPIPE_CAN_LEAVE, .rank = SEAT, .n_workers = 3, .n_layers = 8,
                              .microbatches = 4, .tokens_per_microbatch = 32, .steps_total = 1000, .cut = cut};
    if (u8() & 1)
        nonsense(r);
    set_size(sizeof *r);
    r->socket = daemon_end.path;
    game.rank = r->rank;
    errno = 0;
    game.d = dynpipe_join(r, 0, why, sizeof why);
    if (!game.d) {
        check(why[0] && (errno == EINVAL || errno == ENOMEM), "no reason for a refusal");
        return false;
    }
    memset(&game.layout, 0, sizeof game.layout);
    game.layout.n_workers = dynpipe_layout(game.d, game.layout.cut);
    check(game.layout.n_workers == r->n_workers && r->size >= offsetof(struct dynpipe_run, cut) + sizeof r->cut, "a run of another size");
    game.layout.n_layers = game.layout.cut[game.layout.n_workers];
    check(dp_layout_check(&game.layout, NULL) == 0, "a run without a layout");
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!daemon_end.path[0])
        fuzz_make_seeds();
    input.at = data;
    input.end = data + bytes;
    memset(&game, 0, sizeof game);
    reached.inputs++;
    if (join()) {
        for (uint32_t n = 0; n < MAX_DEEDS && input.at < input.end; n++) {
            uint8_t what = u8();

            serve();
            if (what >= 0x80 && peer.fd >= 0)
                daemon_does(what & 15);
            else if (what >= 0x70)
                skipped_s += (time_t)number() & 0xfff;
            else
                trainer_does(what & 15);
            check_layout();
        }
        serve();
        dynpipe_leave(game.d, u8() & 7, text());
    }
    fake_close(&peer);
    while (fake_accept(&daemon_end, &peer, 0) == 0)
        fake_close(&peer);
    skipped_s = 0;
    return 0;
}

/* ---- seeds ---- */

#define DAEMON(what) (0x80 | (what))
#define ZERO9 0, 0, 0, 0, 0, 0, 0, 0, 0
#define JOIN 0, 0, POLL, POLL /* its HELLO, and its WELCOME */
#define POLL 12
#define STEP 0, 0, 0, 0, 9, 1, 1, 0, 0, ZERO9, ZERO9, 0, 0, 5, 0 /* of 9 ns; layers of 5 */
#define PREPARE DAEMON(0), 1, 0, 0, 0, 4, 2, POLL                /* the next one; cuts 4 and 6 */
#define TO_LEAVE DAEMON(0), 1, 0, 0, 32, 6, 0, 1, POLL           /* cuts 6 and 6, worker 1 is gone */
#define PLAN 2, 0, 0, 0, 0
#define YES 4, 0, 1, 0, 255
#define NO 4, 0, 0, 0, 2, 'n', 'o'
#define COMMIT DAEMON(2), 1, 150, 1, 0
#define ABORT DAEMON(2), 1, 150, 0, 0
#define DONE 6, 150, 1, 1
#define STATE 7
#define FINISH DAEMON(4), 0, 150, 0, 0, 0
#define PROPOSAL DAEMON(5), 1, 1, ZERO9, ZERO9, 0, 5, 1, 8, 0, 0
#define HANG_UP DAEMON(10)
#define LATER(s) 0x70, (s)
#define FOREVER 0x70, 242, 0, 0, 0x0f, 0xff

static void stop_daemon(void)
{
    fprintf(stderr, "# %s: %llu inputs reached %llu plans, %llu waits in doubt, %llu commits, %llu ends, %llu leavers, %llu proposals\n",
            fuzz_name, reached.inputs, reached.plans, reached.doubts, reached.commits, reached.ends, reached.leaves, reached.proposals);
    fake_daemon_stop(&daemon_end);
}

void fuzz_make_seeds(void)
{
    static const uint8_t committed[] = {JOIN, STEP, PREPARE, PLAN, YES, COMMIT, YES, DONE, STATE, FINISH, STATE, STEP, 11,
                                        PREPARE, PLAN, YES, COMMIT, YES, DONE, STATE, FINISH, STATE};
    static const uint8_t aborted[] = {JOIN, PREPARE, PLAN, YES, ABORT, YES, DONE, STATE, COMMIT, STATE, PREPARE, PLAN, YES};
    static const uint8_t refused[] = {JOIN, PREPARE, PLAN, NO, DONE, COMMIT, STATE, STATE};
    static const uint8_t in_doubt[] = {JOIN, PREPARE, PLAN, YES, HANG_UP, POLL, LATER(5), POLL, POLL, STEP, STATE, COMMIT, YES, DONE};
    static const uint8_t too_long[] = {JOIN, PREPARE, PLAN, YES, FOREVER, YES, STATE};
    static const uint8_t leaves[] = {JOIN, TO_LEAVE, PLAN, YES, COMMIT, YES, DONE, STATE, FINISH, STATE};
    static const uint8_t proposed[] = {JOIN, STEP, PROPOSAL, 9, 100, 0, 8, 5, 0, 10, 0, 2, ZERO9, 1, 255, DAEMON(8), 1, POLL, LATER(5)};
    static const uint8_t other_shapes[] = {JOIN, DAEMON(5), 1, 1, ZERO9, ZERO9, 1, 0, 1, 5, POLL, 8, 0, 0, DAEMON(10), LATER(5), POLL, POLL,
                                           DAEMON(5), 1, 2, ZERO9, ZERO9, 2, 0, 8, 4, 2, POLL, 8, 0, 0, DAEMON(10), LATER(5), POLL, POLL,
                                           DAEMON(0), 1, 0, 0, 1, 0, 3, 4, 2, 1, POLL, PLAN, DAEMON(0), 1, 0, 0, 2, 0, 8, 4, 2, POLL, PLAN};
    /* 768 workers; 3 changes of kind 0 */
    static const uint8_t wrong_run[] = {1, 1, 2, 241, 3, 0, 0, 3, 6, 8, ZERO9, 0, 0, 0, ZERO9, ZERO9, ZERO9, ZERO9, 0, 0, 0, 0, 0, 0, 0, 0,
                                        0, 100, 0, 0, 1, 0};
    static const uint8_t wrong_changes[] = {1, 1, 7, 3, ZERO9, ZERO9, ZERO9, ZERO9, ZERO9, ZERO9, ZERO9, 0, 100, 1, 1, 0};

    if (!daemon_end.path[0]) {
        fake_daemon_start(&daemon_end);
        dynpipe_on_log(no_line, NULL);
        atexit(stop_daemon);
    }
    if (fuzz_n_seeds)
        return;
    fuzz_seed(committed, sizeof committed);
    fuzz_seed(aborted, sizeof aborted);
    fuzz_seed(refused, sizeof refused);
    fuzz_seed(in_doubt, sizeof in_doubt);
    fuzz_seed(too_long, sizeof too_long);
    fuzz_seed(leaves, sizeof leaves);
    fuzz_seed(proposed, sizeof proposed);
    fuzz_seed(other_shapes, sizeof other_shapes);
    fuzz_seed(wrong_run, sizeof wrong_run);
    fuzz_seed(wrong_changes, sizeof wrong_changes);
}
