/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's configuration: etc/dynpipe.conf.
 *
 * Sections `daemon` and `run` are tables of keys; `partitions` overrides keys of `run` for one
 * partition of Slurm; `site_policies` names shared objects with policies; `nodes` says where the
 * daemons of nodes listen, for sites where the node's name and the common port do not (several slurmd
 * on one machine).
 */
#ifndef DP_COMMON_SITE_DAEMON_CONFIG_H
#define DP_COMMON_SITE_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/message/msg.h"
#include "common/run/run_limits.h"
#include "common/slurm/job.h"

#define DP_MAX_PARTITIONS 64 /* with overrides; a whole run_conf each, in one struct */
#define DP_MAX_NODE_ENTRIES 512 /* as many nodes as a run may have; a node without an entry goes by its name */
#define DP_MAX_SITE_POLICIES 16 /* that users may choose from */

/* What runs may do: section `run`, and its overrides per partition. */
struct dp_run_conf {
    char max_mode[16], default_mode[16], reference[16], objective[16], packing[16];
    char policy[64], policies[512]; /* policies: names separated by commas */
    char memory[16];
    int64_t min_devices, max_gpus, warmup_reports, memory_margin, copies;
    double growth_wait_s, growth_cooldown_s;
    double max_slowdown, default_slowdown, hysteresis, cooldown_s;
    double vote_timeout_s, stall_s, stall_end_s, gone_timeout_s, grace_s, confirm_s;
    double link_latency_us, link_gbytes_per_s, policy_timeout_s;
};

struct dp_partition_conf {
    char name[64];
    struct dp_run_conf run;
};

struct dp_site_policy_conf {
    char name[64], file[256], arguments[256];
};

struct dp_node_entry {
    char name[64], address[64];
    char from[256]; /* more addresses or names that its daemon may come from, separated by commas */
    uint16_t port;
    bool is_listed, has_address; /* in dynpipe.conf; with an address of its own */
};

struct dp_config {
    char socket[108], state_dir[256], listen[64], munge_socket[108];
    char device_files[256], run_user[64], log_level[16], log[256], pidfile[256];
    int64_t port, report_ms, max_connections, max_connections_per_uid;
    bool slurm;
    double history_hours, poll_s, slices_wait_s;
    struct dp_run_conf run;
    uint32_t n_partitions, n_nodes, n_site_policies;
    struct dp_site_policy_conf site_policy[DP_MAX_SITE_POLICIES];
    struct dp_partition_conf partition[DP_MAX_PARTITIONS];
    struct dp_node_entry node[DP_MAX_NODE_ENTRIES];
};

/* Read path (NULL: defaults only) for the daemon of `node`: every %n in a path becomes its name.
 * The file must belong to root or the caller and be writable by nobody else, and so must the shared
 * objects that it names (trusted_file.h; they are not loaded here). returns a new
 * configuration, or NULL with "file:line: ..." in err. */
struct dp_config *dp_config_load(const char *path, const char *node, struct dp_err *err);
void dp_config_destroy(struct dp_config *c);

/* For the command, where dp_config_load() refuses the file with DP_EINVAL (config_salvage.c): the defaults, with
 * what can be made out of daemon.socket, port, munge_socket, run_user, slurm and nodes. NULL and err: the file
 * cannot be read at all. */
struct dp_config *dp_config_salvage(const char *path, const char *node, struct dp_err *err);

/* Parts of the two: one key from "section.key=value"; %n in paths becomes the name of the node. */
int dp_config_set(struct dp_config *c, const char *assignment, struct dp_err *err);
int dp_config_expand(struct dp_config *c, const char *node, struct dp_err *err);

/* The commented file with every key: what etc/dynpipe.conf is made of. */
void dp_config_print(FILE *out);

/* Where the daemon of a node listens; an unlisted node: its own name and the common port. */
void dp_config_find_node(const struct dp_config *c, const char *name, struct dp_node_entry *out);

/* Do several nodes of Slurm share this machine (two entries with one address, or with loopback addresses, by which
 * no other machine is reached)? Then a process
 * belongs to the node that SLURMD_NODENAME of its environment names. */
bool dp_config_is_shared_host(const struct dp_config *c, const char *node);

/* The limits of a run: the administrator's, with the partition's overrides, narrowed by what the user
 * asked for. Users tighten, never loosen; note: one line about what was not granted, or empty. */
void dp_config_limits(const struct dp_config *c, const char *partition, const struct dp_msg_step_start *asked,
                      struct dp_run_limits *out, char note[256]);

#endif
