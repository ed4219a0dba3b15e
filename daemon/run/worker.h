/* SPDX-License-Identifier: BSD-3-Clause */
/* The workers of this node: HELLO, what they say, and their end. */
#ifndef DP_DAEMON_RUN_WORKER_H
#define DP_DAEMON_RUN_WORKER_H

#include <event2/event.h>

#include "daemon/run/run.h"

/* A worker process on this node. It outlives its connection until its process is gone. */
struct dp_worker {
    struct dp_worker *next;
    struct dp_run *run;
    struct dp_conn *conn;  /* NULL: not connected */
    uint32_t rank, pid;
    uint32_t slice;        /* its own job, 0: the run's */
    uint64_t start_ticks;
    int pidfd;
    struct event *exit_event;
    bool is_waiting;       /* its HELLO waits for the job to be known or for the batch host */
    bool joins;            /* its slice has a seat, and it has voted for no layout yet: it is in none */
    bool has_exited;
    uint64_t exited_ns;
    uint64_t hello_ns, served_ns; /* served: when it was handed on last */
    size_t hello_bytes;
    uint8_t *hello;        /* body of its last HELLO */
};

/* HELLO of a process on this node, which c's credentials name: it gets a seat in its run, or is turned away with a
 * WELCOME that says why. body: m as it came, kept for the batch host. */
void dp_worker_hello(struct dp_conn *c, const struct dp_msg_hello *m, const uint8_t *body, size_t bytes);
/* Any later frame of a worker that was welcomed, to where its run is coordinated. A body that nobody can read ends
 * the connection. */
void dp_worker_frame(struct dp_conn *c, enum dp_msg_type type, const uint8_t *body, size_t bytes);
/* Its connection is gone; the worker stays known until its process ends. why: for the log. */
void dp_worker_closed(struct dp_conn *c, const char *why);
/* Dropped where the worker is not here, not connected or not welcome yet. */
void dp_worker_send(struct dp_run *run, uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes);
/* The answer of the coordinator to its HELLO. device_lock and report_ms are filled in here, and OK becomes FENCED
 * where the node was given back meanwhile. Anything but OK ends the connection. */
void dp_worker_welcome(struct dp_worker *w, struct dp_msg_welcome *welcome);
void dp_worker_serve(struct dp_worker *w); /* forward its HELLO, if it waits and can be */
void dp_workers_serve(struct dp_run *run);                   /* forward the HELLOs that waited */
void dp_workers_hang_up(struct dp_run *run, const char *why); /* they come back and say HELLO again */
/* Close the connections of workers whose process ended some seconds ago: a child of it may hold the socket open. To
 * be called about every 100 ms. */
void dp_workers_tick(struct dp_run *run, uint64_t now_ns);
/* Has this process, that was a worker of this node, ended while nobody here watched it? */
bool dp_worker_is_gone(const struct dp_run *run, uint32_t rank, uint32_t pid);
/* Forget all. Their connections end when what is queued has been sent; their processes go on. */
void dp_workers_destroy(struct dp_run *run);

#endif
