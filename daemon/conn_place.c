/* Who has a place among the connections: see struct dp_conn_set. */
#include "daemon/conn.h"

#include "common/clock.h"
#include "common/log.h"

#define IDLE_NS UINT64_C(1000000000) /* so long without a frame, and a connection may go for another */
#define UNITS_CONNECTION 20.0        /* of its user's share */

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
        if (!is_idle(c, now_ns) || (of ? c->share != of : is_stranger(set, c->uid)))
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
        if (!strangers_only || is_stranger(set, s->uid))
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
    bool is_outsider = is_stranger(set, s->uid);

    if (s->n_conns >= set->max_per_uid && !make_place(set, s->uid, s, "of one user"))
        return false;
    if (is_outsider && count_users(set, true) >= set->max - set->max / 4 &&
        !make_place(set, s->uid, NULL, "of users without a run here"))
        return false;
    return count_users(set, false) < set->max || make_place(set, s->uid, NULL, "of all users");
}

bool dp_conn_set_uid(struct dp_conn *c, uid_t uid)
{
    struct dp_share *s;

    c->uid = uid;
    if (!is_user(c->set, uid) || c->share)
        return true;
    s = dp_share_of(&c->set->shares, uid);
    if (!s || !has_place(c->set, s))
        return false;
    c->share = s;
    s->n_conns++;
    s->units.level -= UNITS_CONNECTION;
    return true;
}
