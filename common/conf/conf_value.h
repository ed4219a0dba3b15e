/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of common/conf/conf.c: one value against its entry of the table. */
#ifndef DP_COMMON_CONF_CONF_VALUE_H
#define DP_COMMON_CONF_CONF_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/conf/conf.h"

/* Check and store into out + key->offset. Messages begin with "section.name: ". */
int dp_conf_put_int(const struct dp_conf_key *key, int64_t v, void *out, struct dp_err *err);
int dp_conf_put_float(const struct dp_conf_key *key, double v, void *out, struct dp_err *err);
int dp_conf_put_bool(const struct dp_conf_key *key, bool v, void *out, struct dp_err *err);
int dp_conf_put_string(const struct dp_conf_key *key, const char *v, void *out, struct dp_err *err);
/* From text, in the type of the key. */
int dp_conf_put_text(const struct dp_conf_key *key, const char *text, void *out, struct dp_err *err);

/* What the key takes, for messages: "an integer from 1 to 64". */
void dp_conf_wants(const struct dp_conf_key *key, char *out, size_t cap);
/* The range alone: "1 to 64", "0 or more", "" where there is none, or the choices. */
void dp_conf_range(const struct dp_conf_key *key, char *out, size_t cap);

#endif
