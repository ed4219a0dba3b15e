/* SPDX-License-Identifier: BSD-3-Clause */
/* See transport.h: the UCX worker, the peers' cards and endpoints. Messages are in transport_messages.c.
 *
 * A peer on the same node is reached through shared memory and CMA, which UCX uses only for endpoints
 * without failure handling; its death is seen through a pidfd instead, at once. A peer on another
 * node gets an endpoint with UCX's own failure handling (TCP resets, keep-alive). Both sides must
 * choose alike, so a card carries what the choice depends on: boot id, pid namespace, and whether
 * $UCX_TLS leaves shared memory in.
 *
 * Everything of UCX's own configuration stays with the user's UCX_* variables; only what they leave
 * open is set here. */
#include "worker/net/transport_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ucs/config/global_opts.h>

#include "common/clock.h"
#include "common/crc32c.h"

#define CARD_MAGIC 0x44504331u /* "DPC1" */
#define CLOSE_NS 1000000000u   /* timeout for a peer that no longer answers */

struct card_head {
    uint32_t magic, pid;
    uint64_t pid_namespace;
    char boot_id[40];
    uint32_t shm, node; /* node: dp_transport_node() */
};

/* Does $UCX_TLS leave a shared-memory transport in? */
static bool shm_is_allowed(void)
{
    static const char *const names[] = {"all", "shm", "sm", "posix", "sysv", "mm"};
    const char *p = getenv("UCX_TLS");

    if (!p || *p == '^')
        return !p || !strstr(p, "sm");
    while (*p) {
        size_t n = strcspn(p, ",");

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == n && !strncmp(p, names[i], n))
                return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static int read_boot_id(char out[40], struct dp_err *err)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, 36);

    if (fd >= 0)
        close(fd);
    if (n != 36)
        return dp_err_set(err, DP_EIO, "%s: %s", path, n < 0 ? strerror(errno) : "too short");
    return 0;
}

/* Slurm's name says what is lost together: one machine may be several of its nodes. Without Slurm a node is a machine. */
static uint32_t node_of(const char *boot_id)
{
    const char *name = getenv("SLURMD_NODENAME");
    uint32_t crc;

    if (!name || !*name)
        name = boot_id;
    crc = dp_crc32c(0, name, strlen(name));
    return crc ? crc : 1;
}

static int make_card_head(struct card_head *h, struct dp_err *err)
{
    struct stat st;

    memset(h, 0, sizeof *h);
    h->magic = CARD_MAGIC;
    h->pid = (uint32_t)getpid();
    h->shm = shm_is_allowed();
    if (stat("/proc/self/ns/pid", &st) < 0)
        return dp_err_set(err, DP_EIO, "/proc/self/ns/pid: %s", strerror(errno));
    h->pid_namespace = st.st_ino;
    if (read_boot_id(h->boot_id, err) < 0)
        return -1;
    h->node = node_of(h->boot_id);
    return 0;
}

static int fail(struct dp_err *err, const char *what, ucs_status_t status)
{
    return dp_err_set(err, status == UCS_ERR_NO_MEMORY ? DP_ENOMEM : DP_EIO, "UCX: %s: %s", what,
                      ucs_status_string(status));
}

static int open_context(struct dp_transport *t, struct dp_err *err)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = t->n_workers,
        .name = "dynpipe",
    };
    ucp_config_t *config;
    ucs_status_t status;

    /* A peer that ends is ours to report, in one line; UCX would add several. */
    if (!getenv("UCX_LOG_LEVEL"))
        ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    if (!getenv("UCX_WARN_UNUSED_ENV_VARS"))
        ucs_global_opts_set_value("WARN_UNUSED_ENV_VARS", "n");
    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return fail(err, "configuration", status);
    if (!getenv("UCX_KEEPALIVE_INTERVAL"))
        ucp_config_modify(config, "KEEPALIVE_INTERVAL", "2s");
    status = ucp_init(&params, config, &t->context);
    ucp_config_release(config);
    return status == UCS_OK ? 0 : fail(err, "no context", status);
}

static int open_worker(struct dp_transport *t, struct dp_err *err)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucs_status_t status = ucp_worker_create(t->context, &params, &t->worker);

    if (status != UCS_OK)
        return fail(err, "no worker", status);
    status = ucp_worker_get_efd(t->worker, &t->efd);
    return status == UCS_OK ? 0 : fail(err, "no event descriptor", status);
}

static int make_card(struct dp_transport *t, struct dp_err *err)
{
    struct card_head head;
    ucp_address_t *address;
    size_t bytes;
    ucs_status_t status;

    if (make_card_head(&head, err) < 0)
        return -1;
    status = ucp_worker_get_address(t->worker, &address, &bytes);
    if (status != UCS_OK)
        return fail(err, "no address", status);
    t->card = malloc(sizeof head + bytes);
    if (t->card) {
        memcpy(t->card, &head, sizeof head);
        memcpy((char *)t->card + sizeof head, address, bytes);
        t->card_bytes = sizeof head + bytes;
        t->peer[t->rank].node = head.node;
    }
    ucp_worker_release_address(t->worker, address);
    return t->card ? 0 : dp_err_set(err, DP_ENOMEM, "no memory for a card of %zu bytes", bytes);
}

struct dp_transport *dp_transport_create(uint32_t rank, uint32_t n_workers, struct dp_err *err)
{
    struct dp_transport *t;

    if (n_workers < 1 || n_workers > DP_MAX_WORKERS || rank >= n_workers) {
        dp_err_set(err, DP_EINVAL, "rank %u of %u workers: at most %d workers", rank, n_workers, DP_MAX_WORKERS);
        return NULL;
    }
    t = calloc(1, sizeof *t);
    if (!t) {
        dp_err_set(err, DP_ENOMEM, "no memory for the transport");
        return NULL;
    }
    t->rank = rank;
    t->n_workers = n_workers;
    t->efd = t->watch_fd = -1;
    for (uint32_t i = 0; i < DP_MAX_WORKERS; i++) {
        t->peer[i].transport = t;
        t->peer[i].pidfd = -1;
    }
    if (open_context(t, err) < 0 || open_worker(t, err) < 0 || make_card(t, err) < 0) {
        dp_transport_destroy(t);
        return NULL;
    }
    return t;
}

/* Wait for a UCX request of a close or flush, not longer than CLOSE_NS. */
static void finish_request(struct dp_transport *t, ucs_status_ptr_t request)
{
    uint64_t end_ns = dp_now_ns() + CLOSE_NS;

    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && dp_now_ns() < end_ns) {
        struct pollfd p = {.fd = t->efd, .events = POLLIN};

        if (ucp_worker_progress(t->worker) == 0 && ucp_worker_arm(t->worker) == UCS_OK)
            poll(&p, 1, 10);
    }
    ucp_request_free(request);
}

static void close_ep(struct dp_peer *p)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    if (!p->ep)
        return;
    if (!p->by_shm && p->is_gone) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    }
    /* A dead shared-memory peer never takes what is queued for it: nothing to wait for. */
    if (!(p->by_shm && p->is_gone))
        finish_request(p->transport, ucp_ep_close_nbx(p->ep, &param));
    p->ep = NULL;
}

static void forget_peer(struct dp_peer *p)
{
    close_ep(p);
    free(p->address);
    p->address = NULL;
    if (p->pidfd >= 0)
        close(p->pidfd);
    p->pidfd = -1;
}

void dp_transport_destroy(struct dp_transport *t)
{
    static ucp_context_h left_open __attribute__((unused)); /* so that it is no leak */
    int saved = errno;
    bool is_held;

    if (!t)
        return;
    for (uint32_t i = 0; i < t->n_workers; i++) {
        dp_peer_is_gone(&t->peer[i]);
        forget_peer(&t->peer[i]);
    }
    if (t->worker)
        ucp_worker_destroy(t->worker);
    is_held = dp_transport_request_release_all(t);
    /* Memory of a message that a dead peer never fetched stays registered in the context, and from 1.14 on UCX ends
     * the process when such a context is cleaned up. The process ends soon: until then it stays. */
    if (is_held)
        left_open = t->context;
    else if (t->context)
        ucp_cleanup(t->context);
    free(t->card);
    free(t);
    errno = saved;
}

void dp_transport_card(const struct dp_transport *t, const void **card, size_t *bytes)
{
    *card = t->card;
    *bytes = t->card_bytes;
}

void dp_transport_set_key(struct dp_transport *t, const uint8_t key[16])
{
    memcpy(t->key, key, sizeof t->key);
}

void dp_transport_key(const struct dp_transport *t, uint8_t key[16])
{
    memcpy(key, t->key, sizeof t->key);
}

/* Watch the process of a peer on this node. A pid that is already free means that it is gone. */
static void watch_process(struct dp_peer *p)
{
    p->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)p->pid, 0u);
    if (p->pidfd < 0 && errno == ESRCH)
        p->is_gone = true;
}

int dp_transport_add(struct dp_transport *t, uint32_t rank, const void *card, size_t bytes, struct dp_err *err)
{
    struct card_head theirs, mine;
    struct dp_peer *p;

    if (rank >= t->n_workers || t->peer[rank].address)
        return dp_err_set(err, DP_EINVAL, "card of worker %u: %s", rank,
                          rank >= t->n_workers ? "no such worker" : "known already");
    if (bytes <= sizeof theirs)
        return dp_err_set(err, DP_EPROTO, "card of worker %u: only %zu bytes", rank, bytes);
    memcpy(&theirs, card, sizeof theirs);
    memcpy(&mine, t->card, sizeof mine);
    if (theirs.magic != CARD_MAGIC)
        return dp_err_set(err, DP_EPROTO, "card of worker %u: magic %08x, not %08x", rank, theirs.magic, CARD_MAGIC);
    p = &t->peer[rank];
    p->address = malloc(bytes - sizeof theirs);
    if (!p->address)
        return dp_err_set(err, DP_ENOMEM, "no memory for the card of worker %u", rank);
    memcpy(p->address, (const char *)card + sizeof theirs, bytes - sizeof theirs);
    p->pid = theirs.pid;
    p->node = theirs.node;
    p->is_gone = false;
    p->is_local = theirs.pid_namespace == mine.pid_namespace &&
                  !memcmp(theirs.boot_id, mine.boot_id, sizeof mine.boot_id);
    p->by_shm = p->is_local && theirs.shm && mine.shm;
    if (p->is_local && rank != t->rank)
        watch_process(p);
    return 0;
}

uint32_t dp_transport_local_rank(const struct dp_transport *t, uint32_t *n_local)
{
    uint32_t rank = 0, n = 1;

    for (uint32_t r = 0; r < t->n_workers; r++) {
        if (r == t->rank || !t->peer[r].is_local)
            continue;
        n++;
        rank += r < t->rank;
    }
    *n_local = n;
    return rank;
}

bool dp_transport_is_local(const struct dp_transport *t, uint32_t rank)
{
    return rank < t->n_workers && t->peer[rank].is_local;
}

uint32_t dp_transport_node(const struct dp_transport *t, uint32_t rank)
{
    return rank < t->n_workers ? t->peer[rank].node : 0;
}

void dp_transport_remove(struct dp_transport *t, uint32_t rank)
{
    if (rank >= t->n_workers || !t->peer[rank].address)
        return;
    forget_peer(&t->peer[rank]);
    t->peer[rank].is_gone = true;
}

void dp_transport_lose(struct dp_transport *t, uint32_t rank)
{
    if (rank >= t->n_workers)
        return;
    t->peer[rank].is_gone = true;
    dp_transport_remove(t, rank);
}

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct dp_peer *p = arg;

    (void)ep;
    (void)status;
    p->is_gone = true;
}

ucp_ep_h dp_peer_ep(struct dp_peer *p, struct dp_err *err)
{
    uint32_t rank = (uint32_t)(p - p->transport->peer);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = p->address,
        .err_mode = p->by_shm ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_failure, .arg = p},
    };
    ucs_status_t status;

    if (p->is_gone) {
        dp_err_set(err, DP_EGONE, "worker %u left or died", rank);
        return NULL;
    }
    if (p->ep)
        return p->ep;
    if (!p->address) {
        dp_err_set(err, DP_EINVAL, "worker %u has given no card", rank);
        return NULL;
    }
    status = ucp_ep_create(p->transport->worker, &params, &p->ep);
    if (status != UCS_OK) {
        p->ep = NULL;
        dp_err_set(err, DP_EIO, "UCX: no endpoint to worker %u: %s", rank, ucs_status_string(status));
    }
    return p->ep;
}

bool dp_peer_is_gone(struct dp_peer *p)
{
    struct pollfd f = {.fd = p->pidfd, .events = POLLIN};

    if (!p->is_gone && p->pidfd >= 0 && poll(&f, 1, 0) == 1)
        p->is_gone = true;
    return p->is_gone;
}

void dp_transport_give_up_when(struct dp_transport *t, bool (*fn)(void *arg), void *arg)
{
    t->give_up_fn = fn;
    t->give_up_arg = arg;
    t->give_up_ns = 0;
}

bool dp_transport_gives_up(struct dp_transport *t)
{
    if (!t->give_up_fn || !t->give_up_fn(t->give_up_arg))
        t->give_up_ns = 0;
    else if (!t->give_up_ns)
        t->give_up_ns = dp_now_ns();
    return t->give_up_ns != 0;
}

bool dp_transport_is_unsafe(const struct dp_transport *t)
{
    return t->is_unsafe;
}

void dp_transport_watch(struct dp_transport *t, int fd, void (*fn)(void *arg), void *arg)
{
    t->watch_fd = fd;
    t->watch_fn = fn;
    t->watch_arg = arg;
}
