/* SPDX-License-Identifier: BSD-3-Clause */
/* See daemon_world.h: the daemons' lives, Slurm's, and what goes wrong. */
#include "config.h"

#include "tests/unit/daemon/daemon_world.h"

#include <dirent.h>
#include <event2/bufferevent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/coord/coordinator.h"
#include "daemon/daemon.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/state/node_journal.h"
#include "tests/unit/random.h"

#define SEC UINT64_C(1000000000)
#define BEGIN_NS (1000 * SEC)
#define PORT 7401
#define SETTLE_S 3.0

struct dw_world dw;
static char folder[64];

/* ---- chance ---- */

uint32_t dw_draw(uint32_t n)
{
    uint32_t v;

    if (dw.input == dw.input_end)
        return random_below(&dw.seed, n);
    v = *dw.input++;
    if (n > 256 && dw.input < dw.input_end)
        v |= (uint32_t)*dw.input++ << 8;
    return v % n;
}

bool dw_chance(uint32_t percent)
{
    return percent && dw_draw(100) < percent;
}

uint64_t dw_soon(uint32_t ms)
{
    return dw.now_ns + 1 + (uint64_t)dw_draw(ms) * 1000000u;
}

void dw_broken_for_all(const char *what, uint64_t a, uint64_t b)
{
    if (!dw.broken[0])
        snprintf(dw.broken, sizeof dw.broken, "%.180s (%llu, %llu) at %.2f s", what, (unsigned long long)a,
                 (unsigned long long)b, (double)(dw.now_ns - BEGIN_NS) / 1e9);
}

/* What a run that lies does to itself is its own affair. */
void dw_broken(const char *what, uint64_t a, uint64_t b)
{
    if (!dw.is_hostile && !dw.node[1].is_hostile)
        dw_broken_for_all(what, a, b);
}

/* ---- folders ---- */

static int write_conf(const char *path)
{
    FILE *f = fopen(path, "we");
    unsigned pid = (unsigned)getpid();

    if (!f)
        return -1;
    fprintf(f, "daemon: { socket = \"%s/%%n/sock\"; state_dir = \"%s/%%n\"; port = %d; slurm = true; run_user = \"\";\n"
               "  device_files = \"\"; report_ms = 200; poll_s = 5.0; pidfile = \"\"; listen = \"127.%u.%u.%u\"; };\n"
               "run: { hysteresis = 5.0; cooldown_s = 1.0; warmup_reports = 1; vote_timeout_s = 5.0; gone_timeout_s = 8.0;\n"
               "  grace_s = 2.0; confirm_s = 6.0; };\n", folder, folder, PORT, 64 + (pid >> 16) % 64, pid >> 8 & 255, pid & 255);
    fprintf(f, "nodes = ( ");
    for (int n = 0; n < DW_NODES; n++)
        fprintf(f, "%s{ name = \"n%d\"; address = \"127.%u.%u.%u\"; port = %d; }", n ? ", " : "", n, 64 + (pid >> 16) % 64,
                pid >> 8 & 255, pid & 255, PORT + n);
    fprintf(f, " );\n");
    return fclose(f);
}

static void empty_folder(const char *path, bool and_it)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    char name[600];

    while (dir && (e = readdir(dir))) {
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            empty_folder(name, true);
        else if (e->d_name[0] != '.')
            unlink(name);
    }
    if (dir)
        closedir(dir);
    if (and_it)
        rmdir(path);
}

int dw_open(void)
{
    const char *tmp = getenv("TMPDIR");
    struct dp_err err = {0};
    char conf[96];

    signal(SIGPIPE, SIG_IGN);
    snprintf(folder, sizeof folder, "/dev/shm/dp-world-XXXXXX");
    if (!mkdtemp(folder)) {
        snprintf(folder, sizeof folder, "%.40s/dp-world-XXXXXX", tmp ? tmp : "/tmp");
        if (!mkdtemp(folder))
            return -1;
    }
    snprintf(conf, sizeof conf, "%s/conf", folder);
    if (write_conf(conf) < 0 || chmod(conf, 0600) < 0)
        return -1;
    for (int n = 0; n < DW_NODES; n++) {
        struct dw_node *node = &dw.node[n];

        snprintf(node->name, sizeof node->name, "n%d", n);
        snprintf(node->folder, sizeof node->folder, "%s/n%d", folder, n);
        node->config = dp_config_load(conf, node->name, &err);
        if (!node->config) {
            fprintf(stderr, "# %s\n", err.text);
            return -1;
        }
    }
    return 0;
}

void dw_close(void)
{
    for (int n = 0; n < DW_NODES; n++)
        dp_config_destroy(dw.node[n].config);
    empty_folder(folder, true);
}

int dw_n_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* ---- daemons ---- */

static void turn(struct dw_node *node)
{
    dw.current = node;
    event_base_loop(node->d.base, EVLOOP_NONBLOCK);
}

static void bury(struct dw_node *node)
{
    dw.current = node;
    for (struct dp_conn *c = node->d.conns.first; c && node->is_dead; c = c->next)
        shutdown(bufferevent_getfd(c->bev), SHUT_RDWR); /* nothing more is said */
    dp_daemon_end(&node->d);
    event_base_free(node->d.base);
    node->is_up = node->is_dead = false;
    dw.current = NULL;
}

static void raise_daemon(struct dw_node *node)
{
    const struct dp_node_job *known;
    struct dp_err err = {0};
    bool is_fine;

    memset(&node->d, 0, sizeof node->d);
    node->d.config = node->config;
    node->d.start_ns = dw.now_ns;
    node->d.uid = DW_DAEMON_UID;
    memcpy(node->d.node, node->name, sizeof node->d.node);
    dw.current = node;
    is_fine = dp_daemon_begin(&node->d, &err) == 0 && dp_daemon_serve(&node->d, &err) == 0;
    if (!is_fine) { /* whoever starts it does so again */
        if (!node->is_dead && dw.now_ns >= node->disk_dead_until_ns && !dw.child_percent)
            dw_broken_for_all(err.text, 0, 0);
        node->is_dead = true;
        bury(node);
        node->up_at_ns = dw.now_ns + SEC;
        return;
    }
    node->is_up = true;
    node->n_restarts++;
    dw.n_restarts++;
    known = dp_node_journal_find(node->d.log, DW_JOB);
    if (node->is_fenced && !(known && known->is_fenced) && !dw.slurm.has_ended)
        dw_broken_for_all("a fence is forgotten", 0, 0);
    node->is_fenced = known && known->is_fenced && known->fence_restart == dw.slurm.restart_count;
}

void dw_kill_daemon(uint32_t n, double away_s)
{
    struct dw_node *node = &dw.node[n];

    if (!node->is_up)
        return;
    node->is_dead = true;
    node->up_at_ns = dw.now_ns + (uint64_t)(away_s * 1e9);
}

/* A dead one is buried when nothing of it is on the stack: a fence may be, with the world going on in it. */
static void daemon_tick(struct dw_node *node)
{
    for (const struct dp_helper *h = dw.helpers; node->is_dead && h; h = h->next)
        if (h->is_running && h->node == node && h->work != dp_empty_slot_work)
            return;
    if (node->is_up && node->is_dead) {
        uint64_t soonest = dw_soon(2000);

        node->up_at_ns = node->up_at_ns > soonest ? node->up_at_ns : soonest;
        bury(node);
    }
    if (!node->is_up && dw.now_ns >= node->up_at_ns)
        raise_daemon(node);
    if (node->is_up && !node->is_dead)
        turn(node);
}

/* ---- Slurm ---- */

static void make_workers(void);

void dw_requeue(void)
{
    struct dw_slurm *s = &dw.slurm;

    if (s->has_ended || s->begin_at_ns || dw.n_processes + 2 * DW_WORKERS > DW_PROCESSES)
        return;
    s->restart_count++;
    s->begin_at_ns = dw_soon(3000) + 2 * SEC;
    dw.is_lost = true;
    dw.n_requeues++;
    for (uint32_t i = 0; i < dw.n_processes; i++)
        dw_exit(&dw.process[i]);
    for (uint32_t n = 0; n < DW_NODES; n++)
        dw.node[n].is_fenced = false;
}

/* It has both nodes, and nothing of what it had learned. */
static void begin_next_life(void)
{
    struct dw_slurm *s = &dw.slurm;

    s->begin_at_ns = 0;
    memset(dw.decided, 0, sizeof dw.decided);
    memset(dw.outcome, 0, sizeof dw.outcome);
    dw.is_lost = false;
    for (uint32_t n = 0; n < DW_NODES; n++)
        s->held[n] = s->held_durable[n] = true;
    make_workers();
    for (uint32_t n = 0; n < DW_NODES; n++)
        dw_step_start(n);
}

static void slurm_tick(void)
{
    struct dw_slurm *s = &dw.slurm;

    if (s->begin_at_ns && dw.now_ns >= s->begin_at_ns)
        begin_next_life();
    if (s->is_down && dw.now_ns >= s->up_at_ns)
        s->is_down = false;
    if (s->save_at_ns && dw.now_ns >= s->save_at_ns) {
        memcpy(s->held_durable, s->held, sizeof s->held);
        s->save_at_ns = 0;
    }
}

static void slurm_crash(void)
{
    struct dw_slurm *s = &dw.slurm;

    memcpy(s->held, s->held_durable, sizeof s->held);
    s->save_at_ns = 0;
    s->boot_s++;
    s->is_down = true;
    s->up_at_ns = dw_soon(4000);
}

/* ---- what goes wrong ---- */

static void cut_link(void)
{
    struct dw_node *node = &dw.node[dw_draw(DW_NODES)];

    for (struct dp_conn *c = node->is_up ? node->d.conns.first : NULL; c; c = c->next)
        if (c->role == DP_ROLE_PEER || c->role == DP_ROLE_TCP_OUT) {
            shutdown(bufferevent_getfd(c->bev), SHUT_RDWR);
            dw.n_cut++;
        }
}

static void kill_worker(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];

    if (!k->process->is_alive)
        return;
    dw.is_lost = true;
    dw_exit(k->process);
}

static void let_go(void)
{
    for (uint32_t i = 0; i < dw.n_processes; i++)
        dw.process[i].is_stuck = false;
}

static void faults(void)
{
    uint32_t r = dw_draw(DW_WORKERS), n;

    if (dw.may_requeue && dw_chance(5)) {
        dw_requeue();
        return;
    }
    switch (dw_draw(13)) {
    case 0:
        dw_kill_daemon(dw_draw(DW_NODES), dw_draw(30) / 10.0);
        break;
    case 1:
        slurm_crash();
        break;
    case 2:
        dw_worker_cut(r);
        break;
    case 3:
        cut_link();
        break;
    case 4:
        n = dw_draw(DW_NODES);
        dw.node[n].disk_dead_until_ns = dw_soon(3000);
        dw_step_start(n);
        break;
    case 5:
        dw.process[dw_draw(dw.n_processes)].is_stuck = true;
        break;
    case 6:
        let_go();
        break;
    case 7:
        dw.worker[r].stalled_until_ns = dw_soon(4000);
        break;
    case 8:
        dw_step_start(dw_draw(DW_NODES));
        break;
    case 9: /* the owner starts something, where he may */
        if (!dw.node[dw.worker[r].process->node].is_fenced)
            (void)dw_fork(dw.worker[r].process->node, DW_WORKERS);
        break;
    case 10:
        dw_intrude(1, r);
        break;
    case 11:
        if (dw_chance(10))
            kill_worker(r);
        break;
    default:
        if (dw_chance(5))
            dw.slurm.has_ended = true;
    }
}

static bool has_faults;

static void step(void)
{
    dw.now_ns += DW_STEP_NS;
    slurm_tick();
    dw_children();
    for (uint32_t n = 0; n < DW_NODES; n++)
        daemon_tick(&dw.node[n]);
    for (uint32_t r = 0; r < DW_WORKERS; r++)
        dw_worker_tick(r);
    if (has_faults && dw_chance(dw.fault_percent))
        faults();
    dw_workers_check();
}

void dw_advance(uint64_t ns)
{
    struct dw_node *before = dw.current;
    uint64_t end = dw.now_ns + ns;

    while (dw.now_ns < end && !dw.broken[0])
        step();
    dw.current = before;
    if (dw.now_ns < end)
        dw.now_ns = end; /* broken: whoever waits must come to an end */
}

void dw_run(double seconds, bool with_faults)
{
    has_faults = with_faults;
    dw_advance((uint64_t)(seconds * 1e9));
    has_faults = false;
}

/* ---- begin and end ---- */

static void make_workers(void)
{
    for (uint32_t r = 0; r < DW_WORKERS; r++) {
        struct dw_worker *k = &dw.worker[r];

        memset(k, 0, sizeof *k);
        k->process = dw_fork(r * DW_NODES / DW_WORKERS, r);
        k->fd = -1;
        k->connect_at_ns = dw.now_ns + SEC;
        k->layout = (struct dp_layout){.epoch = 1, .n_workers = DW_WORKERS, .n_layers = DW_LAYERS, .cut = {0, 2, 4, 6, 8}};
        for (uint32_t l = 0; l < DW_LAYERS; l++)
            k->holds[l] = l / 2 == r;
    }
}

void dw_start(uint64_t seed, const uint8_t *input, size_t bytes)
{
    struct dp_config *config[DW_NODES];
    char name[DW_NODES][64], path[DW_NODES][96];

    for (uint32_t n = 0; n < DW_NODES; n++) {
        config[n] = dw.node[n].config;
        memcpy(name[n], dw.node[n].name, sizeof name[n]);
        memcpy(path[n], dw.node[n].folder, sizeof path[n]);
    }
    memset(&dw, 0, sizeof dw);
    dw.now_ns = BEGIN_NS;
    dw.seed = seed * 7919 + 1;
    dw.input = input;
    dw.input_end = input ? input + bytes : NULL;
    dw.slurm = (struct dw_slurm){.boot_s = 1000, .shrinks_allowed = 1};
    dw_is_on = true;
    srandom(1);
    for (uint32_t n = 0; n < DW_NODES; n++) {
        struct dw_node *node = &dw.node[n];

        node->config = config[n];
        memcpy(node->name, name[n], sizeof node->name);
        memcpy(node->folder, path[n], sizeof node->folder);
        empty_folder(node->folder, true);
        mkdir(node->folder, 0755);
        dw.slurm.held[n] = dw.slurm.held_durable[n] = true;
        raise_daemon(node);
    }
    make_workers();
    for (uint32_t n = 0; n < DW_NODES; n++)
        dw_step_start(n);
}

void dw_restart_all(void)
{
    dw.fault_percent = dw.crash_percent = dw.no_percent = dw.child_percent = 0;
    let_go();
    for (uint32_t n = 0; n < DW_NODES; n++) {
        dw.node[n].disk_dead_until_ns = 0;
        if (dw.node[n].is_up)
            bury(&dw.node[n]);
        dw.node[n].up_at_ns = dw.now_ns;
    }
    dw_run(SETTLE_S, false);
    for (uint32_t n = 0; n < DW_NODES; n++)
        if (!dw.node[n].is_up)
            dw_broken_for_all("a daemon does not come back", n, 0);
}

void dw_stop(void)
{
    for (uint32_t n = 0; n < DW_NODES; n++)
        if (dw.node[n].is_up)
            bury(&dw.node[n]);
    while (dw.helpers)
        dp_helper_cancel(dw.helpers);
    for (uint32_t i = 0; i < DW_SAID; i++)
        dw_hear_out(i);
    for (uint32_t i = 0; i < dw.n_processes; i++) {
        dw_exit(&dw.process[i]);
        close(dw.process[i].end_fd);
    }
    dw_is_on = false;
}
