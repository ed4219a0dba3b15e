/* SPDX-License-Identifier: BSD-3-Clause */
/* See run_world.h. */
#define _GNU_SOURCE /* nftw, close_range */
#include "tests/unit/worker/run_world.h"

#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/run_files.h"
#include "worker/net/transport.h"
#include "worker/train/trainer.h"

#define HANG_NS (120 * DP_SECOND_NS) /* only a fault takes so long */
#define CHANNEL 3 /* of a worker's process to the test, until it trains */
#define STEPS "1000000" /* more than any run makes: a run ends when it is told to */

struct world world;

static const uint8_t key[16] = "0123456789abcde";

/* One card on its way. */
struct card {
    uint32_t rank, bytes;
    uint8_t data[sizeof world.seat[0].card];
};

/* ---- a worker ---- */

static int load(struct dp_train_config *c, uint32_t n, struct dp_err *err)
{
    static char text[7][256];
    char *over[64] = {(char *)"model.blocks=4", (char *)"model.channels=12", (char *)"model.heads=3", (char *)"model.context=8",
                      (char *)"train.batch=2", (char *)"train.microbatches=2", (char *)"train.steps=" STEPS, (char *)"data.eval_every=0",
                      (char *)"pipeline.threads=1", (char *)"checkpoint.keep=1", (char *)"checkpoint.resume=none",
                      (char *)"output.every=1000000"};
    uint32_t k = 12;

    snprintf(text[0], sizeof text[0], "data.path=%s/text", world.daemon.dir);
    snprintf(text[1], sizeof text[1], "output.log=%s", world.log);
    snprintf(text[2], sizeof text[2], "output.tune=%s/tune.json", world.daemon.dir);
    snprintf(text[3], sizeof text[3], "checkpoint.dir=%s", n > 1 ? world.checkpoints : "");
    for (uint32_t i = 0; i < 4; i++)
        over[k++] = text[i];
    for (uint32_t i = 0; i < world.run->n_options; i++)
        over[k++] = (char *)(uintptr_t)world.run->options[i];
    if (n == 1)
        over[k++] = (char *)"checkpoint.every=0";
    return dp_train_config_load(NULL, (int)k, over, c, err);
}

/* Give the test this worker's address, and take the others'. */
static struct dp_transport *meet(uint32_t rank, struct dp_err *err)
{
    struct dp_transport *t = dp_transport_create(rank, world.run->n_seats, err);
    struct card c = {.rank = rank};
    const void *card;
    size_t bytes;

    if (!t)
        return NULL;
    dp_transport_set_key(t, key);
    dp_transport_card(t, &card, &bytes);
    if (bytes > sizeof c.data)
        abort();
    c.bytes = (uint32_t)bytes;
    memcpy(c.data, card, bytes);
    if (send(CHANNEL, &c, sizeof c, 0) != (ssize_t)sizeof c)
        abort();
    while (recv(CHANNEL, &c, sizeof c, 0) == (ssize_t)sizeof c)
        if (c.rank != rank && dp_transport_add(t, c.rank, c.data, c.bytes, err) < 0)
            return NULL;
    close(CHANNEL);
    return t;
}

static int work(uint32_t rank, bool joins)
{
    static struct dp_train_config config;
    const uint32_t n = world.run->n_seats;
    struct dp_wireup w = {.rank = rank, .n_workers = n, .n_there = world.run->n_there, .joins = joins, .local_rank = rank,
                          .way = n > 1 ? DP_WIREUP_BY_DAEMON : DP_WIREUP_ALONE};
    struct dp_trainer_args args = {.config = &config, .wireup = &w, .socket = world.daemon.path};
    enum dp_run_outcome end;
    struct dp_err err = {0};
    char node[16];
    int rc;

    snprintf(node, sizeof node, "n%u", rank); /* copies are on other nodes */
    setenv("SLURMD_NODENAME", node, 1);
    if (!freopen("/dev/null", "w", stdout) || !freopen(world.errors, "a", stderr))
        return 9;
    if (n > 1)
        args.transport = meet(rank, &err);
    if (world.run->in_worker)
        world.run->in_worker(rank);
    rc = (n == 1 || args.transport) && load(&config, n, &err) == 0 ? dp_trainer_run(&args, &end, &err) : -1;
    if (rc < 0)
        fprintf(stderr, "worker %u of %u: %s\n", rank, n, err.text);
    dp_transport_destroy(args.transport);
    return rc < 0;
}

/* returns the test's end of its channel. */
static int begin(uint32_t rank, bool joins)
{
    struct world_seat *s = &world.seat[rank];
    int ends[2];

    if (s->pid && !s->is_dead)
        fail_msg("seat %u is not free", rank);
    memset(s, 0, sizeof *s);
    s->peer.fd = -1;
    s->bye = -1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    fflush(NULL);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        if (dup2(ends[1], CHANNEL) < 0 || close_range(CHANNEL + 1, ~0u, 0) < 0)
            _exit(9);
        _exit(work(rank, joins));
    }
    close(ends[1]);
    return ends[0];
}

/* ---- what workers say ---- */

static void take(struct world_seat *s, const struct dp_header *h, const uint8_t *bytes)
{
    static struct dp_msg_report report;
    struct dp_msg_decision_ack ack;
    struct dp_msg_goodbye bye;
    struct dp_msg_event event;
    struct dp_msg_vote vote;
    struct dp_reader r;

    dp_reader_init(&r, bytes, h->body_len);
    r.version = h->version;
    if (h->type == DP_MSG_DECISION_ACK && dp_msg_decision_ack_decode(&r, &ack, NULL) == 0) {
        s->acked_epoch = ack.epoch;
        s->acked_migration = ack.migration;
    } else if (h->type == DP_MSG_VOTE && dp_msg_vote_decode(&r, &vote, NULL) == 0) {
        s->voted = vote.migration;
        s->is_yes = vote.yes;
        snprintf(s->why, sizeof s->why, "%.255s", vote.text);
    } else if (h->type == DP_MSG_GOODBYE && dp_msg_goodbye_decode(&r, &bye, NULL) == 0) {
        s->bye = bye.how;
    } else if (h->type == DP_MSG_EVENT && dp_msg_event_decode(&r, &event, NULL) == 0) {
        if (event.kind == DP_EV_REGROUPED)
            world.regrouped = event;
        else if (event.kind == DP_EV_FAILED)
            snprintf(s->why, sizeof s->why, "%.255s", event.text);
    } else if (h->type == DP_MSG_REPORT && dp_msg_report_decode(&r, &report, NULL) == 0) {
        s->report_epoch = report.epoch;
        s->step = report.step;
        s->copy_layers = report.copy_layers;
        s->copy_whole = report.copy_whole;
    }
}

/* Whoever comes says in HELLO which worker it is. */
static void let_in(void)
{
    static struct dp_msg_hello hello;
    static struct fake_peer p;
    struct dp_msg_welcome welcome = {.verdict = DP_VERDICT_OK, .mode = DP_MODE_RELEASE, .report_ms = 5};
    struct dp_header h;
    struct dp_reader r;
    const uint8_t *bytes;
    struct world_seat *s;

    if (fake_accept(&world.daemon, &p, 0) < 0)
        return;
    if (fake_next(&p, 20000, &h, &bytes) != 1 || h.type != DP_MSG_HELLO) { /* it died meanwhile */
        fake_close(&p);
        return;
    }
    dp_reader_init(&r, bytes, h.body_len);
    assert_int_equal(dp_msg_hello_decode(&r, &hello, NULL), 0);
    assert_true(hello.rank < world.run->n_seats);
    s = &world.seat[hello.rank];
    if (s->peer.fd >= 0)
        fake_close(&s->peer);
    s->peer = p;
    s->is_there = true;
    if (!world.epoch) {
        world.epoch = hello.epoch;
        memcpy(world.cut, hello.cut, (world.run->n_seats + 1) * sizeof world.cut[0]);
    }
    FAKE_SEND(&s->peer, welcome, DP_MSG_WELCOME, &welcome);
}

static void hear(struct world_seat *s)
{
    struct dp_header h;
    const uint8_t *bytes;
    int rc;

    while ((rc = fake_next(&s->peer, 0, &h, &bytes)) > 0)
        take(s, &h, bytes);
    if (rc < 0) {
        fake_close(&s->peer);
        s->is_there = false;
    }
}

void world_serve(int ms)
{
    struct pollfd p[WORLD_SEATS + 1] = {{.fd = world.daemon.listen_fd, .events = POLLIN}};

    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        p[r + 1] = (struct pollfd){.fd = world.seat[r].is_there ? world.seat[r].peer.fd : -1, .events = POLLIN};
    poll(p, WORLD_SEATS + 1, ms);
    if (p[0].revents)
        let_in();
    for (uint32_t r = 0; r < WORLD_SEATS; r++) {
        struct world_seat *s = &world.seat[r];

        if (p[r + 1].revents && s->is_there)
            hear(s);
        if (s->pid && !s->is_dead && waitpid(s->pid, &s->status, WNOHANG) == s->pid) {
            s->is_dead = true;
            if (s->is_there)
                hear(s);
        }
    }
}

void world_check_time(uint64_t begin_ns, const char *what, const char *file, int line)
{
    if (dp_now_ns() - begin_ns < HANG_NS)
        return;
    for (uint32_t r = 0; r < world.run->n_seats; r++)
        fprintf(stderr, "# %s, seat %u: pid %d, member %d, there %d, dead %d (%x), step %u, voted %u, acked %u, bye %d, %s\n",
                world.run->name, r, (int)world.seat[r].pid, world.seat[r].is_member, world.seat[r].is_there, world.seat[r].is_dead,
                (unsigned)world.seat[r].status, (unsigned)world.seat[r].step, (unsigned)world.seat[r].voted,
                (unsigned)world.seat[r].acked_epoch, world.seat[r].bye, world.seat[r].why);
    fail_msg("%s, %s:%d: never: %s", world.run->name, file, line, what);
}

/* ---- who is there ---- */

static bool is_lost(const struct world_seat *s)
{
    return s->is_member && s->is_dead && !s->is_there;
}

bool world_has_lost(void)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (is_lost(&world.seat[r]))
            return true;
    return false;
}

static bool is_left(uint32_t rank)
{
    return world.seat[rank].is_member && !is_lost(&world.seat[rank]);
}

uint32_t world_leader(void)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (is_left(r))
            return r;
    return WORLD_NOBODY;
}

uint32_t world_n_members(void)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        n += is_left(r);
    return n;
}

void world_kill(uint32_t rank)
{
    kill(world.seat[rank].pid, SIGKILL);
    WORLD_UNTIL(is_lost(&world.seat[rank]));
}

static void receive_card(uint32_t rank, int channel)
{
    struct world_seat *s = &world.seat[rank];
    struct card c;

    if (recv(channel, &c, sizeof c, 0) != (ssize_t)sizeof c)
        fail_msg("worker %u gives no address; see %s", rank, world.errors);
    s->card_bytes = c.bytes;
    memcpy(s->card, c.data, c.bytes);
}

/* Those of all members but itself. */
static void send_cards(uint32_t rank, int channel)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++) {
        struct card c = {.rank = r, .bytes = world.seat[r].card_bytes};

        if (r == rank || !is_left(r))
            continue;
        memcpy(c.data, world.seat[r].card, c.bytes);
        assert_int_equal(send(channel, &c, sizeof c, MSG_NOSIGNAL), sizeof c);
    }
    close(channel);
}

static bool are_all_there(void)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (is_left(r) && !world.seat[r].is_there)
            return false;
    return true;
}

void world_start(const struct world_run *run)
{
    int channel[WORLD_SEATS];

    world.run = run;
    memset(world.seat, 0, sizeof world.seat);
    world.epoch = world.migration = 0;
    world.regrouped.kind = 0;
    snprintf(world.log, sizeof world.log, "%s/%s.jsonl", world.daemon.dir, run->name);
    snprintf(world.checkpoints, sizeof world.checkpoints, "%s/%s.saved", world.daemon.dir, run->name);
    snprintf(world.errors, sizeof world.errors, "%s/%s.errors", world.daemon.dir, run->name);
    for (uint32_t r = 0; r < run->n_there; r++) {
        channel[r] = begin(r, false);
        world.seat[r].is_member = true;
    }
    for (uint32_t r = 0; r < run->n_there && run->n_seats > 1; r++)
        receive_card(r, channel[r]);
    for (uint32_t r = 0; r < run->n_there; r++)
        send_cards(r, channel[r]);
    WORLD_UNTIL(are_all_there());
}

void world_newcomer(uint32_t rank)
{
    int channel = begin(rank, true);

    receive_card(rank, channel);
    send_cards(rank, channel);
    WORLD_UNTIL(world.seat[rank].is_there || world.seat[rank].is_dead);
    if (world.seat[rank].is_dead)
        fail_msg("a newcomer in seat %u ended; see %s", rank, world.errors);
}

/* ---- hand-overs ---- */

static struct dp_msg_prepare prepared;
static uint32_t joining;

static bool takes_part(uint32_t rank)
{
    return is_left(rank) || rank == joining;
}

static void tell_card(uint32_t rank)
{
    struct dp_msg_card m = {.job_id = 1, .rank = rank, .n_workers = world.run->n_seats, .kind = DP_CARD_HERE,
                            .card_len = (uint16_t)world.seat[rank].card_bytes, .card = world.seat[rank].card, .key = (const uint8_t *)""};

    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (is_left(r) && world.seat[r].is_there)
            FAKE_SEND(&world.seat[r].peer, card, DP_MSG_CARD, &m);
}

void world_prepare(const uint32_t *cut, uint32_t joins)
{
    prepared = (struct dp_msg_prepare){.incarnation = 1, .migration = ++world.migration, .epoch = world.epoch,
                                       .n_workers = world.run->n_seats, .n_layers = WORLD_LAYERS};
    joining = joins;
    if (joins != WORLD_NOBODY)
        tell_card(joins);
    memcpy(prepared.cut, cut, (world.run->n_seats + 1) * sizeof *cut);
    for (uint32_t r = 0; r < world.run->n_seats; r++)
        prepared.gone[r] = !takes_part(r);
    for (uint32_t r = 0; r < world.run->n_seats; r++) {
        prepared.coming_bytes = (cut[r + 1] - cut[r]) * world.run->layer_bytes; /* those that stay are counted, too: more than comes */
        if (takes_part(r) && world.seat[r].is_there) /* who has just died cannot hear it */
            FAKE_SEND(&world.seat[r].peer, prepare, DP_MSG_PREPARE, &prepared);
    }
}

static bool have_all_voted(void)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (takes_part(r) && world.seat[r].voted != world.migration)
            return false;
    return true;
}

static bool is_any_no(void)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (takes_part(r) && !world.seat[r].is_yes)
            return true;
    return false;
}

static bool have_all_acked(uint64_t epoch)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (takes_part(r) && (world.seat[r].acked_epoch != epoch || world.seat[r].acked_migration != world.migration))
            return false;
    return true;
}

static void finish(void)
{
    struct dp_msg_finish m = {.migration = world.migration};

    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (takes_part(r) && world.seat[r].is_there)
            FAKE_SEND(&world.seat[r].peer, finish, DP_MSG_FINISH, &m);
}

static enum world_end decide(bool may_commit)
{
    struct dp_msg_decision m = {.incarnation = 1, .migration = world.migration, .text = "somebody was lost, or votes no"};

    WORLD_UNTIL(world_has_lost() || have_all_voted());
    m.commit = may_commit && !world_has_lost() && !is_any_no();
    m.epoch = world.epoch + m.commit;
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (takes_part(r) && world.seat[r].is_there)
            FAKE_SEND(&world.seat[r].peer, decision, DP_MSG_DECISION, &m);
    if (m.commit) {
        world.epoch++;
        memcpy(world.cut, prepared.cut, sizeof world.cut);
        if (joining != WORLD_NOBODY)
            world.seat[joining].is_member = true;
    }
    WORLD_UNTIL(world_has_lost() || have_all_acked(world.epoch));
    if (world_has_lost())
        return WORLD_LOST;
    finish();
    return m.commit ? WORLD_COMMITTED : WORLD_ABORTED;
}

enum world_end world_decide(void)
{
    return decide(true);
}

enum world_end world_refuse(void)
{
    return decide(false);
}

enum world_end world_hand_over(const uint32_t *cut, uint32_t joins)
{
    world_prepare(cut, joins);
    return world_decide();
}

/* ---- losses ---- */

/* One REGROUP. returns false: another one was lost meanwhile. */
static bool regroup(const uint32_t *cut)
{
    struct dp_msg_regroup m = {.incarnation = 1, .migration = ++world.migration, .go = true, .epoch = ++world.epoch,
                               .n_workers = world.run->n_seats, .n_layers = WORLD_LAYERS, .text = "a worker was killed"};

    memcpy(world.cut, cut, sizeof world.cut);
    memcpy(m.cut, cut, (world.run->n_seats + 1) * sizeof *cut);
    world.regrouped.kind = 0;
    joining = WORLD_NOBODY;
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (is_lost(&world.seat[r]))
            world.seat[r].is_member = false;
    for (uint32_t r = 0; r < world.run->n_seats; r++)
        m.gone[r] = !world.seat[r].is_member;
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (world.seat[r].is_member && world.seat[r].is_there)
            FAKE_SEND(&world.seat[r].peer, regroup, DP_MSG_REGROUP, &m);
    WORLD_UNTIL(world_has_lost() || (have_all_acked(world.epoch) && world.regrouped.kind));
    if (world_has_lost())
        return false;
    finish();
    return true;
}

void world_regroup(const uint32_t *cut, void (*more)(uint32_t *cut))
{
    uint32_t again[WORLD_SEATS + 1];

    memcpy(again, cut, sizeof again);
    while (!regroup(again)) {
        if (!more)
            fail_msg("%s: another worker ended in a regroup; see %s", world.run->name, world.errors);
        more(again);
    }
}

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static bool try_cut(uint64_t *seed, uint32_t joins, uint32_t *cut)
{
    const uint32_t n_all = world_n_members() + (joins != WORLD_NOBODY);
    uint32_t left = WORLD_LAYERS, n = n_all;

    cut[0] = 0;
    for (uint32_t r = 0; r < WORLD_SEATS; r++) {
        bool is_in = is_left(r) || r == joins;
        uint32_t own = is_in ? n == 1 ? left : (uint32_t)(draw(seed) % (left + 1 < 4 ? left + 1 : 4)) : 0;

        n -= is_in;
        left -= own;
        cut[r + 1] = cut[r] + own;
    }
    return n_all == 1 || (!left && memcmp(cut, world.cut, (world.run->n_seats + 1) * sizeof *cut) != 0);
}

void world_random_cut(uint64_t *seed, uint32_t joins, uint32_t *cut)
{
    for (int i = 0; i < 1000; i++)
        if (try_cut(seed, joins, cut))
            return;
    fail_msg("no other cuts");
}

static bool are_copies_whole(void)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < WORLD_SEATS; r++) {
        const struct world_seat *s = &world.seat[r];

        if (is_left(r) && (s->report_epoch != world.epoch || s->copy_whole != s->copy_layers))
            return false;
        n += is_left(r) ? s->copy_layers : 0;
    }
    return n == WORLD_LAYERS;
}

void world_await_copies(void)
{
    WORLD_UNTIL(world_has_lost() || are_copies_whole());
}

/* ---- the end ---- */

static bool are_all_dead(void)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (world.seat[r].is_member && !world.seat[r].is_dead)
            return false;
    return true;
}

void world_stop(void)
{
    struct dp_msg_save m = {.stop = 1};

    for (uint32_t r = 0; r < WORLD_SEATS; r++)
        if (is_left(r) && world.seat[r].is_there)
            FAKE_SEND(&world.seat[r].peer, save, DP_MSG_SAVE, &m);
    WORLD_UNTIL(are_all_dead());
    assert_int_equal(world_count(world.errors, "is not what the layer is", ""), 0);
    for (uint32_t r = 0; r < WORLD_SEATS; r++) {
        if (world.seat[r].is_member && (world.seat[r].status || world.seat[r].bye != DP_BYE_SAVED))
            fail_msg("%s: worker %u ended with %x, goodbye %d, %s", world.run->name, r, (unsigned)world.seat[r].status, world.seat[r].bye,
                     world.seat[r].why);
        world.seat[r].is_member = false;
    }
}

void world_clear(void)
{
    for (uint32_t r = 0; r < WORLD_SEATS; r++) {
        struct world_seat *s = &world.seat[r];

        if (s->pid && !s->is_dead) {
            kill(s->pid, SIGKILL);
            waitpid(s->pid, &s->status, 0);
        }
        if (s->pid && s->peer.fd >= 0)
            fake_close(&s->peer);
        *s = (struct world_seat){.peer = {.fd = -1}};
    }
}

/* ---- files ---- */

double *world_losses(const char *log, uint32_t *n, uint32_t *lines)
{
    FILE *f = fopen(log, "r");
    uint32_t room = 1u << 16;
    double *loss = calloc(room, sizeof *loss);
    char line[4096];

    assert_non_null(f);
    assert_non_null(loss);
    *n = *lines = 0;
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL), *l = json_object_get(o, "loss");
        uint32_t i = (uint32_t)json_integer_value(json_object_get(o, "step"));
        double value = json_real_value(l);

        json_decref(o);
        if (!l)
            continue;
        if (i == 0 || i > *n + 1)
            fail_msg("%s: step %u comes behind %u", log, i, *n);
        if (i <= *n && memcmp(&loss[i], &value, sizeof value) != 0)
            fail_msg("%s: step %u has a loss of %a, and of %a", log, i, loss[i], value);
        if (i + 1 >= room) {
            room *= 2;
            loss = realloc(loss, room * sizeof *loss);
            assert_non_null(loss);
        }
        loss[i] = value;
        *n = i > *n ? i : *n;
        ++*lines;
    }
    fclose(f);
    return loss;
}

uint32_t world_compare_alone(void)
{
    const struct world_run *run = world.run;
    char name[64], log[sizeof world.log];
    struct world_run alone = {.name = name, .n_seats = 1, .n_there = 1, .options = run->options, .n_options = run->n_options};
    uint32_t n, n_alone, lines;
    double *here, *there;

    memcpy(log, world.log, sizeof log);
    snprintf(name, sizeof name, "%s-alone", run->name);
    here = world_losses(log, &n, &lines);
    world_start(&alone);
    WORLD_UNTIL(world.seat[0].step >= n || world.seat[0].is_dead);
    world_stop();
    there = world_losses(world.log, &n_alone, &lines);
    assert_true(n > 0 && n_alone >= n);
    for (uint32_t i = 1; i <= n; i++)
        if (memcmp(&here[i], &there[i], sizeof here[i]) != 0)
            fail_msg("%s: step %u has a loss of %a, alone it is %a", run->name, i, here[i], there[i]);
    free(here);
    free(there);
    return n;
}

uint32_t world_count(const char *log, const char *one, const char *other)
{
    FILE *f = fopen(log, "r");
    char line[4096];
    uint32_t n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, one) && strstr(line, other);
    fclose(f);
    return n;
}

int world_set_up(void **state)
{
    (void)state;
    fake_daemon_start(&world.daemon);
    run_files_text(world.daemon.dir);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *at)
{
    (void)st, (void)what;
    return at->level ? remove(path) : 0;
}

int world_tear_down(void **state)
{
    (void)state;
    world_clear();
    nftw(world.daemon.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    fake_daemon_stop(&world.daemon);
    return 0;
}
