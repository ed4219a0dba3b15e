/* Who has a place among the connections: see struct dp_conn_set. */
#include "daemon/conn.h"

#include <arpa/inet.h>

#include "common/clock.h"
#include "common/log.h"

#define IDLE_NS UINT64_C(1000000000) /* so long without a frame, and a connection may go for another */
#define UNITS_CONNECTION 20.0        /* of the share that it counts against */

/* TCP connections that have not said who they are. Where daemons have come from, others are let in from as long as
 * those have a place. */
#define NEWCOMERS 64u
#define NEWCOMERS_UNKNOWN 32u    /* from all addresses where no daemon has come from */
#define NEWCOMERS_OF_ADDRESS 16u
#define SILENT_NS UINT64_C(100000000) /* so long without a word, and it may go for another */

static bool is_stranger(const struct dp_conn_set *set, uid_t uid)
{
    return !set->owns_run || !set->owns_run(set->arg, uid);
}

/* Nobody waits for it: it may go for another one. */
static bool is_idle(const struct dp_conn *c, uint64_t now_ns)
{
    return (c->role == DP_ROLE_LOCAL || c->role == DP_ROLE_CLI) && c->share && !c->is_held && !c->is_throttled &&
           now_ns - c->heard_ns > IDLE_NS;
}

/* Of the idle connections, of this user or of all strangers: one of the user who has most, the oldest of his. */
static struct dp_conn *oldest_idle(const struct dp_conn_set *set, const struct dp_share *of)
{
    struct dp_conn *found = NULL;
    uint64_t now_ns = dp_now_ns();

    for (struct dp_conn *c = set->first; c; c = c->next) {
        if (!is_idle(c, now_ns) || (of ? c->share != of : !is_stranger(set, c->uid)))
            continue;
        if (!found || c->share->n_conns > found->share->n_conns ||
            (c->share == found->share && c->heard_ns < found->heard_ns))
            found = c;
    }
    return found;
}

/* returns false when the place stays taken. */
static bool make_place(struct dp_conn_set *set, uid_t uid, const struct dp_share *of, const char *why)
{
    struct dp_conn *c = oldest_idle(set, of);

    if (dp_conn_may_warn(set))
        dp_warn("too many connections (%s, uid %d): %s", why, (int)uid, c ? "closing the oldest idle one" : "refusing one");
    if (c)
        dp_conn_close(c, "another needs its place");
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

    if (s->n_conns >= set->max_per_uid && !make_place(set, s->id, s, "of one user"))
        return false;
    if (is_outsider && count_users(set, true) >= set->max - set->max / 4 &&
        !make_place(set, s->id, NULL, "of users without a run here"))
        return false;
    return count_users(set, false) < set->max || make_place(set, s->id, NULL, "of all users");
}

static void count_against(struct dp_conn *c, struct dp_share *s)
{
    if (c->share)
        c->share->n_conns--;
    c->share = s;
    if (!s)
        return;
    s->n_conns++;
    s->units.level -= UNITS_CONNECTION;
}

bool dp_conn_set_uid(struct dp_conn *c, uid_t uid)
{
    struct dp_share *s;

    count_against(c, NULL);
    c->uid = uid;
    if (!is_user(c->set, uid))
        return true;
    s = dp_share_of(&c->set->shares, uid);
    if (!s || !has_place(c->set, s))
        return false;
    count_against(c, s);
    return true;
}

/* ---- newcomers: their share is that of the address that they come from ---- */

static bool is_silent(const struct dp_conn *c, uint64_t now_ns)
{
    return c->role == DP_ROLE_TCP_IN && c->share && !c->is_held && now_ns - c->heard_ns > SILENT_NS;
}

/* Of those that say nothing, from this address or from all: one from where most are, the oldest of them. */
static struct dp_conn *oldest_silent(const struct dp_conn_set *set, const struct dp_share *of)
{
    struct dp_conn *found = NULL;
    uint64_t now_ns = dp_now_ns();

    for (struct dp_conn *c = set->first; c; c = c->next) {
        if (!is_silent(c, now_ns) || (of && c->share != of))
            continue;
        if (!found || c->share->n_conns > found->share->n_conns ||
            (c->share == found->share && c->heard_ns < found->heard_ns))
            found = c;
    }
    return found;
}

static const char *address_text(uint32_t address, char out[INET_ADDRSTRLEN])
{
    return inet_ntop(AF_INET, &address, out, INET_ADDRSTRLEN) ? out : "?";
}

static bool make_place_for_newcomer(struct dp_conn_set *set, uint32_t address, const struct dp_share *of)
{
    struct dp_conn *c = oldest_silent(set, of);
    char text[INET_ADDRSTRLEN];

    if (dp_conn_may_warn(set))
        dp_warn("too many TCP connections that do not say who they are, the newest from %s: %s", address_text(address, text),
                c ? "closing the oldest one" : "refusing it");
    if (c)
        dp_conn_close(c, "another needs its place");
    return c != NULL;
}

bool dp_conn_has_place_for(struct dp_conn_set *set, uint32_t address)
{
    const struct dp_share *s = dp_share_of(&set->sources, address);
    uint32_t all = 0, unknown = 0;

    if (!s)
        return false;
    for (const struct dp_share *o = set->sources; o; o = o->next) {
        all += o->n_conns;
        unknown += o->is_known ? 0 : o->n_conns;
    }
    if (s->n_conns >= NEWCOMERS_OF_ADDRESS)
        return make_place_for_newcomer(set, address, s);
    if (all >= NEWCOMERS || (!s->is_known && unknown >= NEWCOMERS_UNKNOWN))
        return make_place_for_newcomer(set, address, NULL);
    return true;
}

void dp_conn_set_address(struct dp_conn *c, uint32_t address)
{
    c->address = address;
    count_against(c, dp_share_of(&c->set->sources, address));
}

void dp_conn_know_address(struct dp_conn_set *set, uint32_t address)
{
    struct dp_share *s = dp_share_of(&set->sources, address);

    if (s)
        s->is_known = true;
}
