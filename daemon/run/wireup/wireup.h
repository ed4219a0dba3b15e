/* SPDX-License-Identifier: BSD-3-Clause */
/* How the workers of a step meet through the daemons: doc/protocol.md, "Wire-up". wireup.c: the workers of this node.
 * wireup_table.c: who gets the table, here and on other nodes, and when it is given up. wireup_tasks.c: what the plugin
 * tells. roster.h: the table. tasks.h: who is who. */
#ifndef DP_DAEMON_RUN_WIREUP_H
#define DP_DAEMON_RUN_WIREUP_H

#include <jansson.h>

#include "daemon/run/run.h"
#include "daemon/run/wireup/roster.h"
#include "daemon/run/wireup/tasks.h"

/* A process of this node that wants to meet the others. It outlives its connection, as long as they may not have met. */
struct dp_wirer {
    struct dp_wirer *next;
    struct dp_run *run;
    struct dp_conn *conn;   /* NULL: not connected */
    uint32_t step_id, rank, n_workers, pid;
    uint64_t start_ticks, since_ns, end_ns; /* end: of its patience */
    uint8_t kind;           /* enum dp_card */
    bool is_checked;        /* it is the task that it says it is */
    bool is_served;         /* its card is in the table, or on its way there */
    uint64_t served_ns, told_ns; /* told: why it waits */
    int sent;               /* enum dp_roster_state that it was told last, -1: none */
    uint32_t cursor;        /* next card to send */
    uint8_t key[DP_KEY_BYTES];
    uint16_t card_len;
    uint8_t *card;
    char told[160];
};

struct dp_wiring {
    struct dp_wirer *wirers;
    struct dp_roster *rosters;
};

/* Frames. */
void dp_wireup_tasks(struct dp_conn *c, const struct dp_msg_tasks *m);   /* of the plugin, or of a node */
void dp_wireup_card(struct dp_conn *c, const struct dp_msg_card *m);     /* of a worker here */
void dp_wireup_roster(struct dp_conn *c, const struct dp_msg_roster *m); /* of the batch host */
void dp_wireup_take_state(struct dp_conn *c, const struct dp_msg_wireup *m); /* of the batch host */
void dp_wireup_relayed(struct dp_conn *c, struct dp_run *run, const struct dp_msg_relay *m); /* a CARD of a node */
void dp_wireup_refused(struct dp_run *run, const struct dp_msg_relay *m); /* the batch host refuses one of our CARDs */

/* Life. */
void dp_wireup_closed(struct dp_conn *c);
void dp_wireup_drained(struct dp_conn *c);
void dp_wireup_peer_up(struct dp_run *run, const char *node);
void dp_wireup_peer_down(struct dp_run *run, const char *node);
void dp_wireup_step_end(struct dp_run *run, uint32_t step_id);
void dp_wireup_tick(struct dp_run *run, uint64_t now_ns);
void dp_wireup_destroy(struct dp_run *run);

/* While workers of a step wait for each other at this batch host: {"state_text", "missing"}, as a coordinator's status
 * has them. NULL: nobody waits. */
json_t *dp_wireup_waiting(const struct dp_run *run);

/* Between the files. */
struct dp_roster *dp_wireup_find(const struct dp_run *run, uint32_t step_id);
struct dp_roster *dp_wireup_table(struct dp_run *run, uint32_t step_id, uint32_t n_workers); /* made; NULL: too many */
/* A CARD of a worker of this node to the batch host: its key sealed. m->key_len: 0 or DP_KEY_BYTES. returns false: it cannot be now. */
bool dp_wireup_send_up(struct dp_run *run, uint32_t pid, const struct dp_msg_card *m);
/* Those who come later have a table of their own each, under this number: no step of Slurm's has it. */
#define DP_LATE_STEPS 0x40000000u
void dp_wireup_send(struct dp_conn *c, const struct dp_run *run, uint32_t step_id, enum dp_wireup_state state,
                    uint32_t speaker, const char *text, const uint8_t *key, size_t key_len);
void dp_wireup_pump(struct dp_run *run); /* what can be sent now of tables and their states, in small pieces */
void dp_wireup_table_tick(struct dp_run *run);
void dp_wireup_tasks_tick(struct dp_run *run, uint64_t now_ns);
/* Put a card into the table of the batch host, which this is. returns -1 and why it is refused; DP_EGONE: not now. */
int dp_wireup_put(struct dp_run *run, const char *node, uint32_t pid, const struct dp_msg_card *m, struct dp_err *err);

#endif
