/* SPDX-License-Identifier: BSD-3-Clause */
/* See events.h. */
#include "config.h"

#include "daemon/net/events.h"

#include "daemon/net/daemon_state.h"

static const struct dp_net_events *events_of(const struct dp_conn *c)
{
    const struct dp_daemon *d = c->owner;

    return d->events;
}

void dp_net_frame(struct dp_conn *c, const struct dp_header *h, const uint8_t *body)
{
    events_of(c)->frame(c, h, body);
}

void dp_net_closed(struct dp_conn *c, const char *why)
{
    events_of(c)->closed(c, why);
}

void dp_net_drained(struct dp_conn *c)
{
    events_of(c)->drained(c);
}
