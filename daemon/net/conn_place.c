/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has a place among the connections: see struct dp_conn_set. */
#include "daemon/net/conn.h"

#include <arpa/inet.h>

#include "common/clock.h"
#include "common/log.h"

/* So long without a frame, and a connection may go for another: one that has its answer soon, because who asks for
 * more does so at once; one that was let in a moment ago later, because its client may be slow. */
#define ANSWERED_NS UINT64_C(100000000)
#define IDLE_NS UINT64_C(1000000000)
#define CROWD 2u              /* who has so many times more than another leaves him a place in any case */
#define UNITS_CONNECTION 20.0 /* of the user's share */

/* TCP connections that have not said who they are. All are asked at once, and each address has places for so many; where
 * they are taken the oldest goes that has said nothing for SILENT_NS: munge may take that long on a busy machine. So
 * whoever says nothing keeps nobody out who does. Those who have are looked at in the order of their coming, so many
 * at a time, because a child asks munge: where daemons have come from, others have theirs as long as those have room. */
#define NEWCOMERS_OF_ADDRESS 160u
#define NEWCOMERS_UNKNOWN 576u /* from all addresses where no daemon has come from */
#define SILENT_NS UINT64_C(250000000)
#define TURNS 128u
#define TURNS_UNKNOWN 64u
#define TURNS_OF_ADDRESS 32u

static bool is_stranger(const struct dp_conn_set *set, uid_t uid)
{
    return !set->owns_run || !set->owns_run(set->arg, uid);
}

/* Nobody waits for it: it may go for another one, after so long. */
static bool is_idle(const struct dp_conn *c, uint64_t now_ns, bool is_crowd)
{
    uint64_t after_ns = is_crowd ? 0 : c->has_asked ? ANSWERED_NS : IDLE_NS;

    return (c->role == DP_ROLE_LOCAL || c->role == DP_ROLE_CLI) && c->share && !c->is_held && !c->is_throttled &&
           now_ns - c->heard_ns >= after_ns;
}

/* Of the idle connections, of this user or of all strangers: one of the user who has most, the oldest of his. */
static struct dp_conn *oldest_idle(const struct dp_conn_set *set, const struct dp_share *of, uint32_t n_own)
{
    struct dp_conn *found = NULL;
    uint64_t now_ns = dp_now_ns();

    for (struct dp_conn *c = set->first; c; c = c->next) {
        bool is_crowd = !of && c->share && c->share->n_conns > CROWD * (n_own + 1);

        if (!is_idle(c, now_ns, is_crowd) || (of ? c->share != of : !is_stranger(set, c->uid)))
            continue;
        if (!found || c->share->n_conns > found->share->n_conns ||
            (c->share == found->share && c->heard_ns < found->heard_ns))
            found = c;
    }
    return found;
}

/* returns false when the place stays taken. */
static bool make_place(struct dp_conn_set *set, const struct dp_share *own, const struct dp_share *of, const char *why)
{
    struct dp_conn *c = oldest_idle(set, of, own->n_conns);

    if (dp_conn_may_warn(set))
        dp_warn("too many connections (%s, uid %d): %s", why, (int)own->id, c ? "closing the oldest idle one" : "refusing one");
    if (c)
        dp_conn_close(c, "another connection needs its place");
    return c != NULL;
}

static uint32_t count_users(const struct dp_conn_set *set, bool strangers_only)
{
    uint32_t n = 0;

    for (const struct dp_share *s = set->shares; s; s = s->next)
        if (!strangers_only || is_stranger(set, s->id))
            n += s->n_conns;
    return n;
}

static bool is_user(const struct dp_conn_set *set, uid_t uid)
{
    return uid != 0 && uid != set->daemon_uid && uid != DP_ANY_UID;
}

/* Is there a place for one more connection of this user? */
static bool has_place(struct dp_conn_set *set, const struct dp_share *s)
{
    bool is_outsider = is_stranger(set, s->id);

    if (s->n_conns >= set->max_per_uid && !make_place(set, s, s, "of one user"))
        return false;
    if (is_outsider && count_users(set, true) >= set->max - set->max / 4 &&
        !make_place(set, s, NULL, "of users without a run here"))
        return false;
    return count_users(set, false) < set->max || make_place(set, s, NULL, "of all users");
}

/* NULL: against nobody. */
static void count_against(struct dp_conn *c, struct dp_share *s)
{
    if (c->share) {
        c->share->n_conns--;
        c->share->n_throttled -= c->is_throttled;
        c->share->n_in_line -= c->is_in_line;
        c->share->n_in_turn -= c->is_in_turn;
        c->set->n_in_line -= c->is_in_line;
        c->is_in_line = c->is_in_turn = false;
    }
    c->share = s;
    if (s) {
        s->n_conns++;
        s->n_throttled += c->is_throttled;
    }
}

bool dp_conn_set_uid(struct dp_conn *c, uid_t uid)
{
    struct dp_share *s;

    dp_conn_leave_place(c);
    c->uid = uid;
    if (!is_user(c->set, uid))
        return true;
    s = dp_share_of(&c->set->shares, uid);
    if (!s || !has_place(c->set, s))
        return false;
    count_against(c, s);
    s->units.level -= UNITS_CONNECTION;
    return true;
}

/* ---- callers: their share is that of the address that they come from ---- */

static bool is_silent(const struct dp_conn *c, uint64_t now_ns)
{
    return c->role == DP_ROLE_TCP_IN && c->share && !c->is_in_line && !c->is_in_turn && !c->is_finishing &&
           now_ns - c->heard_ns >= SILENT_NS && !dp_conn_has_frame(c);
}

static uint32_t n_silent(const struct dp_share *s)
{
    return s->n_conns - s->n_in_line - s->n_in_turn;
}

/* From this address or from all: one from where most are, the oldest of them. */
static struct dp_conn *oldest_silent(const struct dp_conn_set *set, const struct dp_share *of)
{
    struct dp_conn *found = NULL;
    uint64_t now_ns = dp_now_ns();

    for (struct dp_conn *c = set->first; c; c = c->next) {
        if (!is_silent(c, now_ns) || (of ? c->share != of : c->share->is_known))
            continue;
        if (!found || n_silent(c->share) > n_silent(found->share) ||
            (c->share == found->share && c->heard_ns < found->heard_ns))
            found = c;
    }
    return found;
}

static const char *address_text(uint32_t address, char out[INET_ADDRSTRLEN])
{
    return inet_ntop(AF_INET, &address, out, INET_ADDRSTRLEN) ? out : "?";
}

static void warn_of(struct dp_conn_set *set, uint32_t address, const char *what)
{
    char text[INET_ADDRSTRLEN];

    if (dp_conn_may_warn(set))
        dp_warn("too many TCP connections that have not said who they are, the newest from %s: %s", address_text(address, text),
                what);
}

static bool may_have_turn(const struct dp_conn_set *set, const struct dp_share *s)
{
    uint32_t all = 0, unknown = 0;

    for (const struct dp_share *o = set->sources; o; o = o->next) {
        all += o->n_in_turn;
        unknown += o->is_known ? 0 : o->n_in_turn;
    }
    return s->n_in_turn < TURNS_OF_ADDRESS && all < TURNS && (s->is_known || unknown < TURNS_UNKNOWN);
}

/* Who is next: from where daemons have come, then from where fewest have their turn; there the one that came first. */
static struct dp_conn *next_in_line(const struct dp_conn_set *set, const struct dp_share *after)
{
    struct dp_conn *found = NULL;

    for (struct dp_conn *c = set->first; c; c = c->next) /* the newest first */
        if (c->is_in_line && c->share != after &&
            (!found || c->share == found->share || c->share->is_known > found->share->is_known ||
             (c->share->is_known == found->share->is_known && c->share->n_in_turn < found->share->n_in_turn)))
            found = c;
    return found;
}

void dp_conn_serve_line(struct dp_conn_set *set)
{
    const struct dp_share *full = NULL; /* one from where nobody can have his turn now */
    struct dp_conn *c;

    if (set->is_serving)
        return;
    set->is_serving = true;
    while (set->n_in_line > 0 && (c = next_in_line(set, full))) {
        if (!may_have_turn(set, c->share)) {
            if (full)
                break; /* who has had his turn goes on, or the next tick */
            full = c->share;
            continue;
        }
        c->is_in_line = false;
        c->is_in_turn = true;
        c->share->n_in_line--;
        c->share->n_in_turn++;
        set->n_in_line--;
        c->ops->turn(c);
    }
    set->is_serving = false;
}

void dp_conn_leave_place(struct dp_conn *c)
{
    bool had_turn = c->is_in_turn;

    count_against(c, NULL);
    if (had_turn)
        dp_conn_serve_line(c->set);
}

bool dp_conn_has_place_for(struct dp_conn_set *set, uint32_t address)
{
    const struct dp_share *s = dp_share_of(&set->sources, address);
    uint32_t unknown = 0;
    struct dp_conn *c;

    if (!s)
        return false;
    for (const struct dp_share *o = set->sources; o; o = o->next)
        unknown += o->is_known ? 0 : o->n_conns;
    if (s->n_conns < NEWCOMERS_OF_ADDRESS && (s->is_known || unknown < NEWCOMERS_UNKNOWN))
        return true;
    c = oldest_silent(set, s->n_conns < NEWCOMERS_OF_ADDRESS ? NULL : s);
    warn_of(set, address, c ? "closing the oldest one" : "refusing it");
    if (c)
        dp_conn_close(c, "another connection needs its place");
    return c != NULL;
}

void dp_conn_set_address(struct dp_conn *c, uint32_t address)
{
    struct dp_share *s = dp_share_of(&c->set->sources, address);

    c->address = address;
    if (!s) {
        dp_conn_close(c, "out of memory");
        return;
    }
    count_against(c, s);
}

void dp_conn_line_up(struct dp_conn *c)
{
    c->is_in_line = true;
    c->share->n_in_line++;
    c->set->n_in_line++;
    if (c->share->n_in_line == 1) /* who stands behind others there waits for one of them */
        dp_conn_serve_line(c->set);
}

void dp_conn_know_address(struct dp_conn_set *set, uint32_t address)
{
    struct dp_share *s = dp_share_of(&set->sources, address);

    if (s)
        s->is_known = true;
}
