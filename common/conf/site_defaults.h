/* SPDX-License-Identifier: BSD-3-Clause */
/* Defaults of dynpipe.conf that the plugin goes by, too, when it checks at submission what a site allows. */
#ifndef DP_COMMON_CONF_SITE_DEFAULTS_H
#define DP_COMMON_CONF_SITE_DEFAULTS_H

#define DP_DEFAULT_POLICIES "keep,uniform,param,time,iteration"
#define DP_DEFAULT_MAX_SLOWDOWN "50" /* percent */

#endif
