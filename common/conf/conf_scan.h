/* SPDX-License-Identifier: BSD-3-Clause */
/* Look through the text of a configuration file, right or wrong, for its settings: for who needs a few of them
 * and has neither libconfig nor the right to complain (the plugin in a user's command, a command past a mistake
 * in the file). */
#ifndef DP_COMMON_CONF_CONF_SCAN_H
#define DP_COMMON_CONF_CONF_SCAN_H

/* One NAME = VALUE. All borrowed for the call. */
struct dp_conf_found {
    const char *section;
    unsigned entry;           /* which group of the section, from 1: more than one where it is a list */
    const char *name, *value; /* value: without quotes; strings with a backslash are left out */
};
typedef void dp_conf_found_fn(void *arg, const struct dp_conf_found *found);

/* Call fn for each setting in the order of the text. A section begins with its name before a bracket, and ends
 * where the next one begins, so that a bracket that is missing loses nothing. */
void dp_conf_scan(const char *text, dp_conf_found_fn *fn, void *arg);

#endif
