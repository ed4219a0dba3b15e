/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory of this node's cards was in use before a run began, for the proof that its slot is empty. */
#ifndef DP_DAEMON_RUN_CARDS_H
#define DP_DAEMON_RUN_CARDS_H

#include "daemon/run/run.h"

/* A step of a run that is new here begins: have a child look, if the node has cards of NVIDIA's. Whoever is on a card by then
 * keeps it from counting. Once for a run. */
void dp_run_cards_look(struct dp_run *run);

/* The last process of this daemon that asked the cards' driver and was not answered: what a child is told, and what one says. */
struct dp_hung dp_run_cards_hung(const struct dp_run *run);
void dp_run_cards_note(struct dp_run *run, struct dp_hung hung);

#endif
