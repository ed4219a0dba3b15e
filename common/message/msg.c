/* SPDX-License-Identifier: BSD-3-Clause */
/* See msg.h: codecs made from the field lists, and the few messages that carry an array behind
 * their fields. A count from the wire is checked against the array that it will index first. */
#include "common/message/msg.h"

#include <math.h>
#include <string.h>

#define RD_u8(f) (f) = dp_rd_u8(r)
#define RD_u16(f) (f) = dp_rd_u16(r)
#define RD_u32(f) (f) = dp_rd_u32(r)
#define RD_u64(f) (f) = dp_rd_u64(r)
#define RD_f64(f) (f) = dp_rd_f64(r)
#define RD_s64(f) dp_rd_str(r, (f), sizeof(f))
#define RD_s256(f) dp_rd_str(r, (f), sizeof(f))
#define RD_s1k(f) dp_rd_str(r, (f), sizeof(f))
#define RD_s4k(f) dp_rd_str(r, (f), sizeof(f))
#define RD_digest(f) dp_rd_bytes(r, (f), sizeof(f))
#define WR_u8(f) dp_wr_u8(w, (f))
#define WR_u16(f) dp_wr_u16(w, (f))
#define WR_u32(f) dp_wr_u32(w, (f))
#define WR_u64(f) dp_wr_u64(w, (f))
#define WR_f64(f) dp_wr_f64(w, (f))
#define WR_s64(f) dp_wr_str(w, (f))
#define WR_s256(f) dp_wr_str(w, (f))
#define WR_s1k(f) dp_wr_str(w, (f))
#define WR_s4k(f) dp_wr_str(w, (f))
#define WR_digest(f) dp_wr_bytes(w, (f), sizeof(f))

#define FIELD_READ(kind, name, doc) RD_##kind(m->name);
#define FIELD_WRITE(kind, name, doc) WR_##kind(m->name);

static bool has(uint16_t version, uint16_t since)
{
    return version == 0 || version >= since;
}

#define FIELD_READ_3(kind, name, doc)                                                              \
    if (has(r->version, 3))                                                                        \
        RD_##kind(m->name);
#define FIELD_WRITE_3(kind, name, doc)                                                             \
    if (has(w->version, 3))                                                                        \
        WR_##kind(m->name);

static int finish(const struct dp_reader *r, const char *name, struct dp_err *err)
{
    if (r->bad || (r->p != r->end && r->version <= DP_PROTO_VERSION))
        return dp_err_set(err, DP_EPROTO, "%s: body length or text does not match", name);
    return 0;
}

/* A message that is nothing but its fields; with those that version 3 brought. */
#define PLAIN_CODEC_3(name, FIELDS, SINCE_3)                                                       \
    int dp_msg_##name##_decode(struct dp_reader *r, struct dp_msg_##name *m, struct dp_err *err)   \
    {                                                                                              \
        memset(m, 0, sizeof *m);                                                                   \
        FIELDS(FIELD_READ)                                                                         \
        SINCE_3(FIELD_READ_3)                                                                      \
        return finish(r, #name, err);                                                              \
    }                                                                                              \
    void dp_msg_##name##_encode(struct dp_writer *w, const struct dp_msg_##name *m)                \
    {                                                                                              \
        FIELDS(FIELD_WRITE)                                                                        \
        SINCE_3(FIELD_WRITE_3)                                                                     \
    }
#define NOTHING(F)

#define CODEC_PLAIN(name, NAME) PLAIN_CODEC_3(name, DP_##NAME##_FIELDS, NOTHING)
#define CODEC_PLAIN_3(name, NAME) PLAIN_CODEC_3(name, DP_##NAME##_FIELDS, DP_##NAME##_SINCE_3)
#define CODEC_OWN(name, NAME)
#define CODEC(name, NAME, number, since, kind) CODEC_##kind(name, NAME)
DP_MESSAGES(CODEC)

int dp_msg_ack_decode(struct dp_reader *r, struct dp_msg_ack *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_ACK_FIELDS(FIELD_READ)
    return finish(r, "ack", err);
}

/* Before version 3 a plugin starts the tasks unless it hears FENCED, and cannot ask again. */
void dp_msg_ack_encode(struct dp_writer *w, const struct dp_msg_ack *m)
{
    bool is_unsure = m->verdict == DP_VERDICT_LATER && !has(w->version, 3);

    dp_wr_u8(w, is_unsure ? DP_VERDICT_FENCED : m->verdict);
    dp_wr_str(w, m->text);
}

int dp_msg_goodbye_decode(struct dp_reader *r, struct dp_msg_goodbye *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    m->loss = (double)NAN;
    DP_GOODBYE_FIELDS(FIELD_READ)
    DP_GOODBYE_SINCE_3(FIELD_READ_3)
    return finish(r, "goodbye", err);
}

void dp_msg_goodbye_encode(struct dp_writer *w, const struct dp_msg_goodbye *m)
{
    DP_GOODBYE_FIELDS(FIELD_WRITE)
    DP_GOODBYE_SINCE_3(FIELD_WRITE_3)
}

static int check_sizes(const char *name, bool bad, uint32_t n_workers, uint32_t n_layers,
                       struct dp_err *err)
{
    if (bad || n_workers < 1 || n_workers > DP_MAX_WORKERS || n_layers < 1 || n_layers > DP_MAX_LAYERS)
        return dp_err_set(err, DP_EPROTO, "%s: bad n_workers %u or n_layers %u", name, n_workers,
                          n_layers);
    return 0;
}

/* What a release knows that has no list of changes: gradual pruning. */
static void change_as_of_old(struct dp_msg_hello *m)
{
    if (m->prune_begin <= m->prune_end && m->final_sparsity > 0.0 && m->final_sparsity < 1.0)
        m->n_changes = (uint8_t)dp_changes_of_pruning(m->prune_begin, 1, m->prune_end, 0.0, m->final_sparsity, m->change);
}

static int read_changes(struct dp_reader *r, struct dp_msg_hello *m, struct dp_err *err)
{
    if (r->bad || m->n_changes > DP_CHANGES_MAX)
        return dp_err_set(err, DP_EPROTO, "hello: %u changes, at most %u can be", m->n_changes, DP_CHANGES_MAX);
    for (uint32_t i = 0; i < m->n_changes; i++) {
        m->change[i].kind = dp_rd_u8(r);
        m->change[i].step = dp_rd_u64(r);
        m->change[i].value = dp_rd_f64(r);
    }
    return 0;
}

int dp_msg_hello_decode(struct dp_reader *r, struct dp_msg_hello *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_HELLO_FIELDS(FIELD_READ)
    if (check_sizes("hello", r->bad, m->n_workers, m->n_layers, err) < 0)
        return -1;
    if (m->rank >= m->n_workers)
        return dp_err_set(err, DP_EPROTO, "hello: rank %u of %u workers", m->rank, m->n_workers);
    for (uint32_t i = 0; i <= m->n_workers; i++)
        m->cut[i] = dp_rd_u32(r);
    DP_HELLO_SINCE_3(FIELD_READ_3)
    if (!has(r->version, 3))
        change_as_of_old(m);
    else if (read_changes(r, m, err) < 0)
        return -1;
    return finish(r, "hello", err);
}

void dp_msg_hello_encode(struct dp_writer *w, const struct dp_msg_hello *m)
{
    DP_HELLO_FIELDS(FIELD_WRITE)
    for (uint32_t i = 0; i <= m->n_workers; i++)
        dp_wr_u32(w, m->cut[i]);
    DP_HELLO_SINCE_3(FIELD_WRITE_3)
    for (uint32_t i = 0; has(w->version, 3) && i < m->n_changes; i++) {
        dp_wr_u8(w, m->change[i].kind);
        dp_wr_u64(w, m->change[i].step);
        dp_wr_f64(w, m->change[i].value);
    }
}

#define LAYER_LOAD_FIELDS(F)                                                                       \
    F(fwd_ns) F(bwd_input_ns) F(bwd_weight_ns) F(state_bytes) F(act_bytes) F(params) F(nnz)

static void read_loads(struct dp_reader *r, uint32_t n, struct dp_layer_load *layer)
{
    for (uint32_t i = 0; i < n; i++) {
#define LOAD_READ(f) layer[i].f = dp_rd_u64(r);
        LAYER_LOAD_FIELDS(LOAD_READ)
    }
}

static void write_loads(struct dp_writer *w, uint32_t n, const struct dp_layer_load *layer)
{
    for (uint32_t i = 0; i < n; i++) {
#define LOAD_WRITE(f) dp_wr_u64(w, layer[i].f);
        LAYER_LOAD_FIELDS(LOAD_WRITE)
    }
}

static int check_stage(const char *name, bool bad, uint32_t first, uint32_t n, struct dp_err *err)
{
    if (bad || n > DP_MAX_LAYERS || first > DP_MAX_LAYERS - n)
        return dp_err_set(err, DP_EPROTO, "%s: bad layers, %u from %u", name, n, first);
    return 0;
}

int dp_msg_report_decode(struct dp_reader *r, struct dp_msg_report *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_REPORT_FIELDS(FIELD_READ)
    if (check_stage("report", r->bad, m->first_layer, m->n_layers, err) < 0)
        return -1;
    read_loads(r, m->n_layers, m->layer);
    DP_REPORT_SINCE_3(FIELD_READ_3)
    return finish(r, "report", err);
}

void dp_msg_report_encode(struct dp_writer *w, const struct dp_msg_report *m)
{
    DP_REPORT_FIELDS(FIELD_WRITE)
    write_loads(w, m->n_layers, m->layer);
    DP_REPORT_SINCE_3(FIELD_WRITE_3)
}

int dp_msg_expect_decode(struct dp_reader *r, struct dp_msg_expect *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_EXPECT_FIELDS(FIELD_READ)
    if (check_stage("expect", r->bad, m->first_layer, m->n_layers, err) < 0)
        return -1;
    read_loads(r, m->n_layers, m->layer);
    return finish(r, "expect", err);
}

void dp_msg_expect_encode(struct dp_writer *w, const struct dp_msg_expect *m)
{
    DP_EXPECT_FIELDS(FIELD_WRITE)
    write_loads(w, m->n_layers, m->layer);
}

/* Of a layout: its cuts, and who leaves it. */
static void read_workers(struct dp_reader *r, uint32_t n_workers, uint32_t *cut, uint8_t *gone)
{
    for (uint32_t i = 0; i <= n_workers; i++)
        cut[i] = dp_rd_u32(r);
    dp_rd_bytes(r, gone, n_workers);
}

static void write_workers(struct dp_writer *w, uint32_t n_workers, const uint32_t *cut, const uint8_t *gone)
{
    for (uint32_t i = 0; i <= n_workers; i++)
        dp_wr_u32(w, cut[i]);
    dp_wr_bytes(w, gone, n_workers);
}

int dp_msg_prepare_decode(struct dp_reader *r, struct dp_msg_prepare *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_PREPARE_FIELDS(FIELD_READ)
    if (check_sizes("prepare", r->bad, m->n_workers, m->n_layers, err) < 0)
        return -1;
    read_workers(r, m->n_workers, m->cut, m->gone);
    DP_PREPARE_SINCE_3(FIELD_READ_3)
    return finish(r, "prepare", err);
}

void dp_msg_prepare_encode(struct dp_writer *w, const struct dp_msg_prepare *m)
{
    DP_PREPARE_FIELDS(FIELD_WRITE)
    write_workers(w, m->n_workers, m->cut, m->gone);
    DP_PREPARE_SINCE_3(FIELD_WRITE_3)
}

int dp_msg_regroup_decode(struct dp_reader *r, struct dp_msg_regroup *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_REGROUP_FIELDS(FIELD_READ)
    if (check_sizes("regroup", r->bad, m->n_workers, m->n_layers, err) < 0)
        return -1;
    read_workers(r, m->n_workers, m->cut, m->gone);
    return finish(r, "regroup", err);
}

void dp_msg_regroup_encode(struct dp_writer *w, const struct dp_msg_regroup *m)
{
    DP_REGROUP_FIELDS(FIELD_WRITE)
    write_workers(w, m->n_workers, m->cut, m->gone);
}

int dp_msg_proposal_decode(struct dp_reader *r, struct dp_msg_proposal *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_PROPOSAL_FIELDS(FIELD_READ)
    if (check_sizes("proposal", r->bad, m->n_workers, m->n_layers, err) < 0)
        return -1;
    read_workers(r, m->n_workers, m->cut, m->gone);
    return finish(r, "proposal", err);
}

void dp_msg_proposal_encode(struct dp_writer *w, const struct dp_msg_proposal *m)
{
    DP_PROPOSAL_FIELDS(FIELD_WRITE)
    write_workers(w, m->n_workers, m->cut, m->gone);
}

int dp_msg_relay_decode(struct dp_reader *r, struct dp_msg_relay *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_RELAY_FIELDS(FIELD_READ)
    if (r->bad || m->inner_len > (size_t)(r->end - r->p) || m->inner_type == DP_MSG_RELAY ||
        m->inner_len > dp_msg_max_body(m->inner_type))
        return dp_err_set(err, DP_EPROTO, "relay: bad inner length %u of type %u", m->inner_len,
                          m->inner_type);
    m->inner = r->p;
    r->p += m->inner_len;
    DP_RELAY_SINCE_3(FIELD_READ_3)
    return finish(r, "relay", err);
}

void dp_msg_relay_encode(struct dp_writer *w, const struct dp_msg_relay *m)
{
    DP_RELAY_FIELDS(FIELD_WRITE)
    dp_wr_bytes(w, m->inner, m->inner_len);
    DP_RELAY_SINCE_3(FIELD_WRITE_3)
}

int dp_msg_answer_decode(struct dp_reader *r, struct dp_msg_answer *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_ANSWER_FIELDS(FIELD_READ)
    if (r->bad || m->json_len > (size_t)(r->end - r->p) || m->json_len > DP_ANSWER_CHUNK)
        return dp_err_set(err, DP_EPROTO, "answer: bad length %u", m->json_len);
    m->json = (const char *)r->p;
    r->p += m->json_len;
    return finish(r, "answer", err);
}

void dp_msg_answer_encode(struct dp_writer *w, const struct dp_msg_answer *m)
{
    DP_ANSWER_FIELDS(FIELD_WRITE)
    dp_wr_bytes(w, m->json, m->json_len);
}

int dp_msg_tasks_decode(struct dp_reader *r, struct dp_msg_tasks *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_TASKS_FIELDS(FIELD_READ)
    if (r->bad || m->count > DP_MAX_WORKERS || m->count > m->n_tasks)
        return dp_err_set(err, DP_EPROTO, "tasks: bad count %u of %u", m->count, m->n_tasks);
    for (uint32_t i = 0; i < m->count; i++) {
        m->rank[i] = dp_rd_u32(r);
        m->pid[i] = dp_rd_u32(r);
    }
    return finish(r, "tasks", err);
}

void dp_msg_tasks_encode(struct dp_writer *w, const struct dp_msg_tasks *m)
{
    DP_TASKS_FIELDS(FIELD_WRITE)
    for (uint32_t i = 0; i < m->count; i++) {
        dp_wr_u32(w, m->rank[i]);
        dp_wr_u32(w, m->pid[i]);
    }
}

/* The next bytes, borrowed. NULL with r->bad: there are not so many. */
static const uint8_t *borrow(struct dp_reader *r, size_t bytes)
{
    const uint8_t *p = r->p;

    if (r->bad || bytes > (size_t)(r->end - r->p)) {
        r->bad = true;
        return NULL;
    }
    r->p += bytes;
    return p;
}

int dp_msg_card_decode(struct dp_reader *r, struct dp_msg_card *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_CARD_FIELDS(FIELD_READ)
    if (r->bad || m->n_workers < 1 || m->n_workers > DP_MAX_WORKERS || m->rank >= m->n_workers || m->kind > DP_CARD_AGAIN)
        return dp_err_set(err, DP_EPROTO, "card: bad rank %u of %u or kind %u", m->rank, m->n_workers, m->kind);
    if (m->card_len > DP_CARD_MAX || (m->key_len && m->key_len != DP_KEY_BYTES && m->key_len != DP_SEALED_KEY_BYTES))
        return dp_err_set(err, DP_EPROTO, "card: %u bytes of card, %u of key", m->card_len, m->key_len);
    m->key = borrow(r, m->key_len);
    m->card = borrow(r, m->card_len);
    return finish(r, "card", err);
}

void dp_msg_card_encode(struct dp_writer *w, const struct dp_msg_card *m)
{
    DP_CARD_FIELDS(FIELD_WRITE)
    dp_wr_bytes(w, m->key, m->key_len);
    dp_wr_bytes(w, m->card, m->card_len);
}

int dp_msg_roster_decode(struct dp_reader *r, struct dp_msg_roster *m, struct dp_err *err)
{
    struct dp_reader cards;

    memset(m, 0, sizeof *m);
    DP_ROSTER_FIELDS(FIELD_READ)
    if (r->bad || m->n_workers < 1 || m->n_workers > DP_MAX_WORKERS || m->first >= m->n_workers ||
        m->count > m->n_workers - m->first || m->cards_len > DP_ROSTER_CHUNK)
        return dp_err_set(err, DP_EPROTO, "roster: %u cards from %u of %u", m->count, m->first, m->n_workers);
    m->cards = borrow(r, m->cards_len);
    if (finish(r, "roster", err) < 0)
        return -1;
    dp_reader_init(&cards, m->cards, m->cards_len);
    for (uint32_t i = 0; i < m->count; i++) {
        uint16_t bytes = dp_rd_u16(&cards);

        if (bytes > DP_CARD_MAX)
            return dp_err_set(err, DP_EPROTO, "roster: a card of %u bytes", bytes);
        borrow(&cards, bytes);
    }
    return finish(&cards, "roster's cards", err);
}

void dp_msg_roster_encode(struct dp_writer *w, const struct dp_msg_roster *m)
{
    DP_ROSTER_FIELDS(FIELD_WRITE)
    dp_wr_bytes(w, m->cards, m->cards_len);
}

int dp_msg_wireup_decode(struct dp_reader *r, struct dp_msg_wireup *m, struct dp_err *err)
{
    memset(m, 0, sizeof *m);
    DP_WIREUP_FIELDS(FIELD_READ)
    if (r->bad || m->state > DP_WIREUP_RANK ||
        (m->key_len && m->key_len != DP_KEY_BYTES && m->key_len != DP_SEALED_KEY_BYTES))
        return dp_err_set(err, DP_EPROTO, "wireup: bad state %u, or %u bytes of key", m->state, m->key_len);
    m->key = borrow(r, m->key_len);
    return finish(r, "wireup", err);
}

void dp_msg_wireup_encode(struct dp_writer *w, const struct dp_msg_wireup *m)
{
    DP_WIREUP_FIELDS(FIELD_WRITE)
    dp_wr_bytes(w, m->key, m->key_len);
}

/* Sizes of the encoded kinds; a text costs its length field and at most cap - 1 bytes. */
#define SIZE_u8 1
#define SIZE_u16 2
#define SIZE_u32 4
#define SIZE_u64 8
#define SIZE_f64 8
#define SIZE_s64 (2 + 63)
#define SIZE_s256 (2 + 255)
#define SIZE_s1k (2 + 1023)
#define SIZE_s4k (2 + 4095)
#define SIZE_digest DP_DIGEST_BYTES
#define FIELD_SIZE(kind, name, doc) +SIZE_##kind

#define CUTS_BYTES ((DP_MAX_WORKERS + 1) * 4) /* u32 each */
#define CHANGES_BYTES (DP_CHANGES_MAX * (1 + 8 + 8)) /* kind, step, value */

/* Largest bodies of those that are more than their fields. */
#define MOST_ACK 0 DP_ACK_FIELDS(FIELD_SIZE)
#define MOST_TASKS DP_MAX_WORKERS * 8 DP_TASKS_FIELDS(FIELD_SIZE)
#define MOST_HELLO CUTS_BYTES + CHANGES_BYTES DP_HELLO_FIELDS(FIELD_SIZE) DP_HELLO_SINCE_3(FIELD_SIZE)
#define MOST_REPORT DP_MAX_LAYERS * sizeof(struct dp_layer_load) DP_REPORT_FIELDS(FIELD_SIZE) DP_REPORT_SINCE_3(FIELD_SIZE)
#define MOST_REGROUP CUTS_BYTES + DP_MAX_WORKERS DP_REGROUP_FIELDS(FIELD_SIZE)
#define MOST_EXPECT DP_MAX_LAYERS * sizeof(struct dp_layer_load) DP_EXPECT_FIELDS(FIELD_SIZE)
#define MOST_PROPOSAL CUTS_BYTES + DP_MAX_WORKERS DP_PROPOSAL_FIELDS(FIELD_SIZE)
#define MOST_PREPARE CUTS_BYTES + DP_MAX_WORKERS DP_PREPARE_FIELDS(FIELD_SIZE) DP_PREPARE_SINCE_3(FIELD_SIZE)
#define MOST_GOODBYE 0 DP_GOODBYE_FIELDS(FIELD_SIZE) DP_GOODBYE_SINCE_3(FIELD_SIZE)
#define MOST_CARD DP_CARD_MAX + DP_SEALED_KEY_BYTES DP_CARD_FIELDS(FIELD_SIZE)
#define MOST_ROSTER DP_ROSTER_CHUNK DP_ROSTER_FIELDS(FIELD_SIZE)
#define MOST_WIREUP DP_SEALED_KEY_BYTES DP_WIREUP_FIELDS(FIELD_SIZE)
#define MOST_RELAY DP_BODY_MAX
#define MOST_ANSWER DP_ANSWER_CHUNK DP_ANSWER_FIELDS(FIELD_SIZE)

#define MOST_PLAIN(NAME) 0 DP_##NAME##_FIELDS(FIELD_SIZE)
#define MOST_PLAIN_3(NAME) 0 DP_##NAME##_FIELDS(FIELD_SIZE) DP_##NAME##_SINCE_3(FIELD_SIZE)
#define MOST_OWN(NAME) MOST_##NAME
#define TYPE_ROW(name, NAME, number, since, kind) [number] = {since, #NAME, MOST_##kind(NAME)},
static const struct {
    uint16_t since; /* version */
    const char *name;
    uint32_t max_body;
} type_table[] = {DP_MESSAGES(TYPE_ROW)};
_Static_assert(DP_MAX_LAYERS * sizeof(struct dp_layer_load) + 256 <= DP_BODY_MAX,
               "a full report fits one frame, inside a relay too");

#define N_TYPES (sizeof type_table / sizeof type_table[0])

uint32_t dp_msg_max_body(uint16_t type)
{
    return type < N_TYPES ? type_table[type].max_body : 0;
}

const char *dp_msg_name(uint16_t type)
{
    return type < N_TYPES && type_table[type].name ? type_table[type].name : "?";
}

uint16_t dp_msg_since(uint16_t type)
{
    return type < N_TYPES ? type_table[type].since : 0;
}

uint16_t dp_proto_agree(uint16_t highest)
{
    if (highest < DP_PROTO_MIN || highest == 2) /* no release had 2 */
        return 0;
    return highest < DP_PROTO_VERSION ? highest : DP_PROTO_VERSION;
}

static uint32_t largest(const struct dp_header *h)
{
    uint32_t bytes = dp_msg_max_body(h->type) + (h->version > DP_PROTO_VERSION ? DP_TAIL_MAX : 0);

    return bytes < DP_BODY_MAX ? bytes : DP_BODY_MAX;
}

int dp_header_decode(const uint8_t bytes[DP_HEADER_BYTES], struct dp_header *h, struct dp_err *err)
{
    struct dp_reader r;
    uint32_t magic;

    dp_reader_init(&r, bytes, DP_HEADER_BYTES);
    magic = dp_rd_u32(&r);
    h->version = dp_rd_u16(&r);
    h->type = dp_rd_u16(&r);
    h->body_len = dp_rd_u32(&r);
    h->seq = dp_rd_u32(&r);
    if (magic != DP_MAGIC)
        return dp_err_set(err, DP_EPROTO, "not a DynPipe peer (magic 0x%08x)", magic);
    if (!dp_proto_agree(h->version))
        return dp_err_set(err, DP_EPROTO, "peer speaks protocol version %u, this is version %d",
                          h->version, DP_PROTO_VERSION);
    if (dp_msg_max_body(h->type) == 0)
        return dp_err_set(err, DP_EPROTO, "unknown message type %u", h->type);
    if (dp_msg_since(h->type) > h->version)
        return dp_err_set(err, DP_EPROTO, "protocol version %u has no %s", h->version, dp_msg_name(h->type));
    if (h->body_len > largest(h))
        return dp_err_set(err, DP_EPROTO, "%s: body of %u bytes; allowed: %u", dp_msg_name(h->type),
                          h->body_len, largest(h));
    return 0;
}

void dp_header_encode(uint8_t bytes[DP_HEADER_BYTES], const struct dp_header *h)
{
    struct dp_writer w;

    dp_writer_init(&w, bytes, DP_HEADER_BYTES);
    dp_wr_u32(&w, DP_MAGIC);
    dp_wr_u16(&w, h->version);
    dp_wr_u16(&w, h->type);
    dp_wr_u32(&w, h->body_len);
    dp_wr_u32(&w, h->seq);
}

static const char *const mode_names[] = {"off", "observe", "balance", "release", NULL};
static const char *const reference_names[] = {"start", "best", "fixed", NULL};

static const char *name_of(const char *const *names, unsigned value)
{
    for (unsigned i = 0; names[i]; i++)
        if (i == value)
            return names[i];
    return "?";
}

static int value_of(const char *const *names, const char *text)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], text))
            return i;
    return -1;
}

const char *dp_mode_name(unsigned mode)
{
    return name_of(mode_names, mode);
}

const char *dp_reference_name(unsigned reference)
{
    return name_of(reference_names, reference);
}

int dp_mode_parse(const char *text)
{
    return value_of(mode_names, text);
}

int dp_reference_parse(const char *text)
{
    return value_of(reference_names, text);
}
