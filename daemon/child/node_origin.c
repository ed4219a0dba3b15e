/* SPDX-License-Identifier: BSD-3-Clause */
/* See node_origin.h. When Slurm does not answer, the node's name and dynpipe.conf are what there is: the same
 * that our own connections to it go by, and a daemon that comes back while slurmctld is away must get in. A
 * name that is no node's gains nothing by that: orders are taken only from nodes that Slurm gave the job.
 */
#include "config.h"

#include "daemon/child/node_origin.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/slurm/libslurm.h"
#include "daemon/child/slurm_job.h"

#define MAX_ADDRESSES 32 /* of one name; a node has a few */
#define MAX_CACHED 512 /* as many as a run has nodes at most: DP_MAX_SLOTS */
#define KEEP_NS (UINT64_C(300) * 1000000000) /* an address that was changed is believed for so long */

struct addresses {
    uint32_t n;
    struct in_addr address[MAX_ADDRESSES];
};

static bool has_address(const struct addresses *a, struct in_addr one)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->address[i].s_addr == one.s_addr)
            return true;
    return false;
}

/* All IPv4 addresses of a name, or the one that is written. */
static void add_name(struct addresses *a, const char *name)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list = NULL;

    if (!name[0] || getaddrinfo(name, NULL, &hints, &list) != 0)
        return;
    for (const struct addrinfo *i = list; i && a->n < MAX_ADDRESSES; i = i->ai_next) {
        struct sockaddr_in in;

        memcpy(&in, i->ai_addr, sizeof in);
        if (!has_address(a, in.sin_addr))
            a->address[a->n++] = in.sin_addr;
    }
    freeaddrinfo(list);
}

/* `from` of dynpipe.conf: names or addresses, separated by commas. */
static void add_list(struct addresses *a, const char *list)
{
    char name[256];

    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ", ");

        if (n > 0) {
            snprintf(name, sizeof name, "%.*s", (int)n, p);
            add_name(a, name);
        }
        p += n + (p[n] != '\0');
    }
}

enum known { KNOWN, UNKNOWN, NO_ANSWER };

static void add_node(const struct dp_slurm_node *node, void *arg)
{
    add_name(arg, node->address);
    add_name(arg, node->hostname);
}

static enum known add_from_slurm(struct addresses *a, const char *node)
{
    struct dp_err err;

    if (dp_slurm_each_node(node, add_node, a, &err) == 0)
        return KNOWN;
    return err.code == DP_EGONE ? UNKNOWN : NO_ANSWER;
}

static bool is_unspecific(struct in_addr a)
{
    return a.s_addr == 0 || ntohl(a.s_addr) >> 24 == 127;
}

struct owner {
    struct in_addr address;
    const char *but; /* this node */
    char *name;      /* 64 bytes, "": none yet */
};

static void find_owner(const struct dp_slurm_node *node, void *arg)
{
    struct owner *o = arg;
    struct addresses a = {0};

    if (*o->name || !strcmp(node->name, o->but))
        return;
    add_name(&a, node->address);
    if (has_address(&a, o->address))
        snprintf(o->name, 64, "%s", node->name);
}

/* Name of another node whose address this is, by what Slurm was told. Only asked about an address that is
 * none of the node's own. */
static bool is_of_another(struct in_addr address, const char *node, char other[64])
{
    struct owner o = {address, node, other};

    other[0] = '\0';
    dp_slurm_each_node(NULL, find_owner, &o, NULL);
    return other[0] != '\0';
}

static void list_addresses(const struct addresses *a, char *out, size_t cap)
{
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < a->n && used + INET_ADDRSTRLEN + 2 < cap; i++) {
        char text[INET_ADDRSTRLEN] = "";

        inet_ntop(AF_INET, &a->address[i], text, sizeof text);
        used += (size_t)snprintf(out + used, cap - used, "%s%s", used ? ", " : "", text);
    }
}

static void check(const struct dp_origin_request *q, struct dp_origin_result *r)
{
    char source[INET_ADDRSTRLEN] = "", sealed[INET_ADDRSTRLEN] = "", list[120], other[64];
    const struct dp_origin *o = &q->origin;
    enum known known = q->has_slurm ? NO_ANSWER : UNKNOWN;
    struct addresses a = {0};

    if (q->ask_slurm) {
        dp_slurm_enter();
        known = add_from_slurm(&a, o->node);
    }
    if (known == UNKNOWN && !q->entry.is_listed) {
        snprintf(r->text, sizeof r->text, "there is no node of that name in %sdynpipe.conf", q->has_slurm ? "Slurm or " : "");
        return;
    }
    add_name(&a, o->node);
    add_name(&a, q->entry.address);
    add_list(&a, q->entry.from);
    inet_ntop(AF_INET, &o->source, source, sizeof source);
    inet_ntop(AF_INET, &o->sealed, sealed, sizeof sealed);
    list_addresses(&a, list, sizeof list);
    if (!has_address(&a, o->source))
        snprintf(r->text, sizeof r->text, "it connects from %s, but that node's addresses are %s; if this is right, add from "
                 "= \"%s\" to the node in `nodes` of dynpipe.conf", source, list[0] ? list : "not known", source);
    else if (!is_unspecific(o->sealed) && !has_address(&a, o->sealed) && known == KNOWN &&
             is_of_another(o->sealed, o->node, other))
        snprintf(r->text, sizeof r->text, "its credential was made at %s, which is node %s", sealed, other);
    else
        r->is_fine = true;
}

size_t dp_origin_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_origin_request q;
    struct dp_origin_result r;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    memset(&r, 0, sizeof r);
    check(&q, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

/* ---- the cache ---- */

struct dp_origin_cache {
    uint32_t next; /* to be overwritten */
    struct {
        struct dp_origin origin;
        uint64_t until_ns; /* 0: empty */
    } entry[MAX_CACHED];
};

struct dp_origin_cache *dp_origin_cache_create(void)
{
    return calloc(1, sizeof(struct dp_origin_cache));
}

void dp_origin_cache_destroy(struct dp_origin_cache *c)
{
    free(c);
}

static bool is_same(const struct dp_origin *a, const struct dp_origin *b)
{
    return !strcmp(a->node, b->node) && a->source.s_addr == b->source.s_addr && a->sealed.s_addr == b->sealed.s_addr;
}

bool dp_origin_cache_has(const struct dp_origin_cache *c, const struct dp_origin *o, uint64_t now_ns)
{
    for (uint32_t i = 0; c && i < MAX_CACHED; i++)
        if (c->entry[i].until_ns > now_ns && is_same(&c->entry[i].origin, o))
            return true;
    return false;
}

void dp_origin_cache_add(struct dp_origin_cache *c, const struct dp_origin *o, uint64_t now_ns)
{
    if (!c)
        return;
    c->entry[c->next].origin = *o;
    c->entry[c->next].until_ns = now_ns + KEEP_NS;
    c->next = (c->next + 1) % MAX_CACHED;
}
