/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of the hand-over tests, see handover_world.h: its layers, what disturbs it, and what must be true of it
 * afterwards. Every layer that it holds then is compared byte for byte with the one that its index and the seed define. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/handover_world.h"
#include "worker/handover/transfer_internal.h"

struct dp_train_config config;
struct dp_tune tune;

/* ---- the model ---- */

void set_model(int64_t channels)
{
    const int64_t c = channels;
    const int64_t shape[][2] = {{3 * c, c}, {c, c}, {4 * c, c}, {c, 4 * c}};

    memset(&config, 0, sizeof config);
    config.model.blocks = 6;
    config.model.channels = c;
    config.model.heads = 4;
    config.model.context = 16;
    config.model.vocabulary = 64;
    config.train.steps = 100;
    config.train.batch = 2;
    config.train.microbatches = 2;
    config.train.lr = config.train.min_lr = 1e-3;
    config.train.beta1 = 0.9;
    config.train.beta2 = 0.95;
    config.train.eps = 1e-8;
    config.train.seed = 42;
    tune.n_entries = 4;
    for (uint32_t i = 0; i < 4; i++)
        tune.entry[i] = (struct dp_tune_entry){.c_out = shape[i][0], .c_in = shape[i][1], .n = 32, .crossover = 0.6};
}

uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int prune_param(struct dp_layer *l, struct dp_param *p, uint32_t keep_of_16)
{
    size_t words = (size_t)(p->rows * p->cols + 63) / 64;
    uint64_t *keep = calloc(words, sizeof *keep);
    struct dp_err err;
    int rc;

    if (!keep)
        return -1;
    for (int64_t i = 0; i < p->rows * p->cols; i++)
        if ((mix((uint64_t)i + l->index) & 15) < keep_of_16)
            keep[i / 64] |= (uint64_t)1 << (i % 64);
    rc = dp_param_prune(l, p, keep, &err);
    free(keep);
    return rc;
}

/* Moments of the elements that are left. */
static int fill_moments(struct dp_backend *be, struct dp_param *p, uint32_t index)
{
    const size_t n = (size_t)p->n, words = (n + 63) / 64;
    uint64_t *keep = calloc(words, sizeof *keep);
    float *m = calloc(n, sizeof *m), *v = calloc(n, sizeof *v);
    int rc = keep && m && v ? 0 : -1;

    if (rc == 0 && p->keep)
        rc = be->ops->get(be, keep, p->keep, words * sizeof *keep, NULL);
    for (size_t k = 0; rc == 0 && k < n; k++) {
        bool left = !p->keep || (keep[k / 64] >> (k % 64) & 1);

        m[k] = left ? (float)(mix((uint64_t)k * 31 + index) >> 40) * 1e-8f : 0;
        v[k] = left ? (float)(mix((uint64_t)k * 37 + index) >> 40) * 1e-9f : 0;
    }
    if (rc == 0 && (be->ops->put(be, p->m, m, n * sizeof *m, NULL) < 0 || be->ops->put(be, p->v, v, n * sizeof *v, NULL) < 0))
        rc = -1;
    free(keep);
    free(m);
    free(v);
    return rc;
}

/* Layer `index` as it would be in the middle of a pruned run: one matrix sparse, one pruned but dense,
 * moments of all elements that are left, random state moved on. */
static struct dp_layer *make_layer(struct dp_backend *be, uint32_t index)
{
    struct dp_err err = {0};
    struct dp_layer *l = dp_layer_create(&config, index, be, &tune, &err);
    uint32_t pruned = 0;

    if (!l) {
        fprintf(stderr, "# layer %u: %s\n", index, err.text);
        return NULL;
    }
    for (uint32_t i = 0; i < l->n_params; i++) {
        struct dp_param *p = &l->param[i];

        if (p->prunable && pruned < 2 && prune_param(l, p, pruned++ == 0 ? 2 : 12) < 0)
            return NULL;
        if (p->m && fill_moments(be, p, index) < 0)
            return NULL;
    }
    l->rng_counter = 1000 + index;
    if (index < sc.frozen && dp_layer_freeze(l, NULL) < 0)
        return NULL;
    return l;
}

/* Bytes that layer `index` has under way, 0: there is none. */
static size_t moved_bytes(struct dp_backend *be, uint32_t index)
{
    struct dp_layer_part part[DP_LAYER_MAX_PARTS];
    struct dp_layer *l = make_layer(be, index);
    uint32_t n = l ? dp_layer_parts(l, part) : 0;
    size_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += part[i].bytes;
    dp_layer_destroy(l);
    return sum;
}

static bool is_intact(struct dp_backend *be, const struct dp_layer *l)
{
    struct dp_layer *want = make_layer(be, l->index);
    uint8_t *a = NULL, *b = NULL;
    size_t na = 0, nb = 1;
    bool same;

    if (!want || dp_layer_write(l, &a, &na, NULL) < 0 || dp_layer_write(want, &b, &nb, NULL) < 0)
        return false;
    same = na == nb && memcmp(a, b, na) == 0;
    for (uint32_t i = 0; same && i < l->n_params; i++)
        same = !l->param[i].sparse == !want->param[i].sparse && l->param[i].nnz == want->param[i].nnz &&
               (!l->param[i].sparse || l->param[i].sparse->plan); /* kernels can begin */
    free(a);
    free(b);
    dp_layer_destroy(want);
    return same;
}

/* ---- a worker ---- */

static void set_layout(struct dp_layout *l, const uint32_t *cut)
{
    memset(l, 0, sizeof *l);
    l->epoch = EPOCH;
    l->n_workers = sc.n_workers;
    l->n_layers = 8;
    memcpy(l->cut, cut, (sc.n_workers + 1) * sizeof *cut);
}

int make_stage(struct worker_state *w)
{
    struct dp_layer *layers[8];
    struct dp_err err = {0};
    uint32_t first = w->layout.cut[w->rank], n = w->layout.cut[w->rank + 1] - first;

    for (uint32_t i = 0; i < n; i++)
        CHECK((layers[i] = make_layer(w->be, first + i)));
    w->stage = dp_stage_create(&config, w->be, layers, n, 1, &err);
    CHECK(w->stage);
    return 0;
}

int set_up(struct worker_state *w)
{
    struct dp_msg_hello hello = {.job_id = 1, .rank = w->rank, .n_workers = sc.n_workers, .n_layers = 8, .epoch = EPOCH};
    struct dp_err err = {0};

    set_layout(&w->layout, sc.old_cut);
    memcpy(hello.cut, w->layout.cut, sizeof hello.cut);
    if (!w->be)
        w->be = dp_backend_create(sc.is_late ? "cuda" : "cpu", 0, 1, &err);
    if (!w->be)
        fprintf(stderr, "# worker %u: %s\n", w->rank, err.text);
    CHECK(w->be);
    CHECK(make_stage(w) == 0);
    w->control = dp_control_create(d.path, &hello, 20000, &err);
    CHECK(w->control && dp_control_is_connected(w->control));
    w->h = dp_handover_create(w->control, w->rank, &w->layout, &sc.times, &err);
    CHECK(w->h);
    return 0;
}

static struct worker_state *sender; /* of this process */

/* Before a chunk leaves. */
static void disturb(const struct worker_state *w)
{
    if ((int)w->rank == sc.dies)
        raise(SIGKILL);
    if ((int)w->rank == sc.stops) {
        sc.stops = -1;
        raise(SIGSTOP);
    }
    if ((int)w->rank == sc.waits) {
        char byte;

        sc.waits = -1;
        if (write(sc.pipe[1], "", 1) != 1 || read(sc.back[0], &byte, 1) != 1)
            abort();
    }
    if ((int)w->rank == sc.stalls) {
        if (write(sc.pipe[1], "", 1) != 1) /* now the daemons may die */
            abort();
        while (dp_control_is_connected(w->control))
            dp_control_wait(w->control, 5);
        sc.stalls = -1;
    }
}

/* ---- what happens on the way ---- */

static struct {
    bool is_armed; /* the next chunk's */
    size_t bytes;
    const void *instead; /* what goes in its place; NULL: a bit of it is another one */
    uint8_t copy[DP_TRANSFER_CHUNK + 64]; /* header and chunk, or chunk */
} flip;

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *data, size_t bytes, ucp_tag_t tag, const ucp_request_param_t *param)
{
    static ucs_status_ptr_t (*real)(ucp_ep_h, const void *, size_t, ucp_tag_t, const ucp_request_param_t *);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "ucp_tag_send_nbx");
    if (flip.is_armed && bytes >= flip.bytes && bytes <= sizeof flip.copy) { /* not the header that goes before a large one */
        memcpy(flip.copy, data, bytes);
        if (flip.instead)
            memcpy(flip.copy + bytes - flip.bytes, flip.instead, flip.bytes);
        else
            flip.copy[bytes - flip.bytes + sc.at_bit / 8 % flip.bytes] ^= (uint8_t)(1 << sc.at_bit % 8);
        flip.is_armed = false;
        data = flip.copy;
    }
    return real(ep, data, bytes, tag, param);
}

/* Number of the first chunk of the first layer that w gives away which is as long as the next one, and no small one. */
static uint32_t first_of_two(const struct worker_state *w)
{
    struct dp_way *way = calloc(1, sizeof *way);
    struct dp_piece now = {0}, next;
    uint32_t n = 0;

    way->layer = dp_stage_layer(w->stage, sc.new_cut[w->rank + 1] - sc.old_cut[w->rank]);
    if (dp_way_fill(way, NULL) < 0 || !dp_way_next(way, &now))
        abort();
    for (next = now; dp_way_next(way, &next); now = next, n++)
        if (next.bytes == now.bytes && now.bytes > 65536)
            break;
    dp_way_free(way);
    return n;
}

/* Manifest: magic u32, migration u64, layer u32, bytes u64, state u64, length u32, head, whose first tensor has its weights
 * behind name and shape. */
static void lie(uint8_t *manifest)
{
    enum { BYTES = 16, STATE = 24, HEAD = 36, WEIGHTS = HEAD + DP_LAYER_HEADER_MAX - 32 + 32 + 16 };

    if (sc.tampering == LIE_BYTES)
        manifest[BYTES + 7] ^= 16;
    if (sc.tampering == LIE_STATE)
        memcpy(manifest + STATE, manifest + BYTES, 8); /* no gradients */
    if (sc.tampering == LIE_WEIGHTS)
        manifest[WEIGHTS] ^= 1;
}

struct dp_transport_request *__real_dp_transport_send(struct dp_transport *t, uint32_t to, uint64_t tag, const void *buf,
                                                      size_t bytes, struct dp_err *err);
struct dp_transport_request *__wrap_dp_transport_send(struct dp_transport *t, uint32_t to, uint64_t tag, const void *buf,
                                                      size_t bytes, struct dp_err *err);

/* The low 12 bits of a hand-over's tags are the number of a chunk below 2048, and of a manifest from there on to 2560. */
struct dp_transport_request *__wrap_dp_transport_send(struct dp_transport *t, uint32_t to, uint64_t tag, const void *buf,
                                                      size_t bytes, struct dp_err *err)
{
    static const void *before;
    const uint32_t number = tag & 0xfff;
    bool is_layer = sender && tag >> 52 == DP_CH_LAYER, is_tampered = is_layer && (int)sender->rank == sc.tampers;
    uint32_t two = is_tampered && number < 2048 && sc.tampering != FLIP ? first_of_two(sender) : 0;

    if (is_layer && number < 2048)
        disturb(sender);
    if (is_tampered && number >= 2048 && number < 2560)
        lie((uint8_t *)(uintptr_t)buf);
    if (is_tampered && number < 2048) {
        if (number == (sc.tampering == FLIP ? sc.at_chunk : sc.tampering == TWICE ? two + 1 : UINT32_MAX)) {
            flip.instead = sc.tampering == TWICE ? before : NULL;
            flip.bytes = bytes;
            flip.is_armed = true;
        }
        if (sc.tampering == SWAP && number - two < 2)
            tag ^= number ^ (two + two + 1 - number);
        if (sc.tampering == LOSE && number == two)
            tag ^= 1 << 12; /* another hand-over's */
        before = buf;
    }
    return __real_dp_transport_send(t, to, tag, buf, bytes, err);
}

int check_stage(struct worker_state *w)
{
    uint32_t first = w->layout.cut[w->rank], n = w->layout.cut[w->rank + 1] - first;

    CHECK(dp_stage_n_layers(w->stage) == n);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(dp_stage_layer(w->stage, i)->index == first + i);
        CHECK(is_intact(w->be, dp_stage_layer(w->stage, i)));
    }
    return 0;
}

static bool gave_layers(const struct worker_state *w)
{
    for (uint32_t l = sc.old_cut[w->rank]; l < sc.old_cut[w->rank + 1]; l++)
        if (l < sc.new_cut[w->rank] || l >= sc.new_cut[w->rank + 1])
            return true;
    return false;
}

int poll_until(struct worker_state *w, int state, struct dp_err *err)
{
    uint64_t end = dp_now_ns() + 20000 * MS;
    int got;

    while ((got = dp_handover_poll(w->h, err)) != state &&
           dp_now_ns() < end)
        dp_control_wait(w->control, 20);
    return got;
}

/* What this worker sent of frozen layers, and that it would be more than twice as much of those that learn (three times, but for
 * patterns). */
static int check_sent(struct worker_state *w, const struct dp_handover_outcome *out)
{
    const uint32_t frozen = sc.frozen;
    size_t sent = 0, learning = 0;

    for (uint32_t l = sc.old_cut[w->rank]; l < sc.old_cut[w->rank + 1]; l++) {
        if (l >= sc.new_cut[w->rank] && l < sc.new_cut[w->rank + 1])
            continue;
        sent += moved_bytes(w->be, l);
        sc.frozen = 0;
        learning += l < frozen ? moved_bytes(w->be, l) : 0;
        sc.frozen = frozen;
    }
    CHECK(out->sent_bytes == sent);
    CHECK(w->rank || !frozen || (sent > 0 && learning > 2 * sent));
    return 0;
}

static int after_commit(struct worker_state *w, const struct dp_handover_outcome *out)
{
    bool leaves = sc.gone[w->rank];
    struct dp_err err = {0};
    int state = dp_handover_poll(w->h, &err);

    CHECK(w->layout.epoch == EPOCH + 1);
    CHECK(memcmp(w->layout.cut, sc.new_cut, (sc.n_workers + 1) * sizeof sc.new_cut[0]) == 0);
    CHECK(memcmp(w->layout.gone, sc.gone, sc.n_workers) == 0);
    CHECK(out->is_leaving == leaves);
    CHECK(check_stage(w) == 0);
    CHECK(check_sent(w, out) == 0);
    /* the script sends FINISH only after a goodbye-less event from each: copies are still here */
    CHECK((dp_handover_retired_bytes(w->h) > 0) == gave_layers(w));
    CHECK(state == (leaves ? DP_MEMBER_LEAVING : gave_layers(w) ? DP_MEMBER_KEEPING : DP_MEMBER_IDLE));
    CHECK(dp_control_event(w->control, &(struct dp_msg_event){.step = 1, .text = "checked"}));
    CHECK(poll_until(w, leaves ? DP_MEMBER_LEAVE : DP_MEMBER_IDLE, &err) ==
          (leaves ? DP_MEMBER_LEAVE : DP_MEMBER_IDLE));
    CHECK(leaves || !gave_layers(w) || dp_control_is_finished(w->control, MIGRATION));
    CHECK(dp_handover_retired_bytes(w->h) == 0 || leaves);
    return 0;
}

static int after_abort(struct worker_state *w, const struct dp_handover_outcome *out)
{
    uint64_t end = dp_now_ns() + 20000 * MS;
    struct dp_err err = {0};
    int state = 0;

    CHECK(w->layout.epoch == EPOCH);
    CHECK(memcmp(w->layout.cut, sc.old_cut, (sc.n_workers + 1) * sizeof sc.old_cut[0]) == 0);
    if (sc.why && !strstr(out->text, sc.why))
        fprintf(stderr, "# worker %u: \"%s\" does not say \"%s\"\n", w->rank, out->text, sc.why);
    CHECK(!sc.why || strstr(out->text, sc.why));
    CHECK((sc.fails_at && (int)w->rank == sc.fails) || check_stage(w) == 0); /* a device that has failed says nothing */
    CHECK(dp_handover_retired_bytes(w->h) == 0);
    while (sc.waits_for_decision && dp_now_ns() < end &&
           (state = dp_handover_poll(w->h, &err)) >= 0 &&
           !dp_control_decision(w->control, MIGRATION))
        dp_control_wait(w->control, 20);
    if (sc.waits_for_decision)
        state = dp_handover_poll(w->h, &err);
    CHECK(!sc.waits_for_decision || dp_control_decision(w->control, MIGRATION));
    CHECK(state == (sc.commits_later ? -1 : DP_MEMBER_IDLE));
    return 0;
}

static int run_worker(struct worker_state *w)
{
    struct dp_handover_args args = {
        .transport = w->t, .rank = w->rank, .layout = &w->layout, .stage = &w->stage,
        .config = &config, .backend = w->be, .tune = &tune, .step = 40, .mem_limit_bytes = sc.mem_limit_bytes, .frozen = sc.frozen,
    };
    struct dp_handover_outcome out;
    struct dp_err err = {0};
    int rc;

    sender = w;
    if (sc.fails_at && (int)w->rank == sc.fails) {
        char text[16];

        snprintf(text, sizeof text, "%u", sc.fails_at);
        setenv("DYNPIPE_LATE_FAIL", text, 1);
    }
    rc = dp_handover_run(w->h, &args, MIGRATION, &out, &err);

    CHECK(write(sc.pipe[1], "", 1) == 1);
    if (sc.ending[w->rank] == FATAL) {
        if (rc == 0 || err.code != sc.fatal_code)
            fprintf(stderr, "# worker %u: rc %d, code %d: %s\n", w->rank, rc, (int)err.code, err.text);
        CHECK(rc < 0 && err.code == sc.fatal_code);
        return 0;
    }
    if (rc < 0)
        fprintf(stderr, "# worker %u: %s\n", w->rank, err.text);
    CHECK(rc == 0);
    if (out.is_committed != (sc.ending[w->rank] == COMMITTED))
        fprintf(stderr, "# worker %u: %s\n", w->rank, out.text);
    CHECK(out.is_committed == (sc.ending[w->rank] == COMMITTED));
    if (w->rank == 0 && out.sent_bytes + out.received_bytes > 0)
        printf("# %s: pause %.1f ms, transfer %.1f ms, %.2f MB through worker 0\n",
               out.is_committed ? "commit" : "abort", (double)out.pause_ns / 1e6, (double)out.transfer_ns / 1e6,
               (double)(out.sent_bytes + out.received_bytes) / 1e6);
    fflush(stdout);
    return out.is_committed ? after_commit(w, &out) : after_abort(w, &out);
}

void tear_down(struct worker_state *w)
{
    dp_control_destroy(w->control);
    dp_stage_destroy(w->stage);
    dp_handover_destroy(w->h);
    dp_backend_destroy(w->be);
}

void meet(struct dp_transport *t, uint32_t rank)
{
    uint64_t tag = dp_tag(DP_CH_COLLECTIVE, 1, 1, 1);
    struct dp_transport_request *in[MAX_PROCS] = {0}, *out[MAX_PROCS] = {0};
    uint8_t got[MAX_PROCS], say = 1;

    for (uint32_t i = 0; i < sc.n_workers; i++)
        if (i != rank) {
            in[i] = dp_transport_recv(t, i, tag, &got[i], 1, NULL);
            out[i] = dp_transport_send(t, i, tag, &say, 1, NULL);
        }
    for (uint32_t i = 0; i < sc.n_workers; i++) {
        if (out[i])
            dp_transport_wait(t, out[i], 0, NULL, NULL);
        if (in[i])
            dp_transport_wait(t, in[i], 0, NULL, NULL);
    }
}

int worker(struct dp_transport *t, uint32_t rank)
{
    struct worker_state *w = &(struct worker_state){.t = t, .rank = rank};
    int rc = set_up(w);

    if (rc == 0)
        rc = run_worker(w);
    meet(t, rank);
    tear_down(w);
    return rc;
}
