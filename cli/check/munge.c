/* SPDX-License-Identifier: BSD-3-Clause */
/* munge: does a credential make the round trip, in time, and is munged new enough? */
#include <stdlib.h>
#include <string.h>

#include "cli/check/check.h"
#include "cli/command/probe.h"
#include "cli/show/json.h"
#include "common/message/munge_trip.h"

enum { FLOOR = 518 }; /* 0.5.18, or a distribution's fix of CVE-2026-25506 (doc/protocol.md) */

static int round_trip(void *arg, FILE *out)
{
    struct dp_err err;

    if (dp_munge_round_trip(arg, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    fputs("ok", out);
    return 0;
}

/* Socket of munged: dynpipe.conf, else Slurm's AuthInfo, else munge's default (""). */
static const char *find_socket(const struct dp_check *c, char *out, size_t cap)
{
    char info[512];
    const char *p;

    out[0] = '\0';
    if (c->config && *c->config->munge_socket) {
        snprintf(out, cap, "%s", c->config->munge_socket);
    } else if (c->slurm) {
        p = strstr(dp_json_text(info, sizeof info, c->slurm, "authinfo", ""), "socket=");
        if (p)
            snprintf(out, cap, "%.*s", (int)strcspn(p + 7, ","), p + 7);
    }
    return out;
}

static void check_version(struct dp_check *c)
{
    const char *const munge[] = {"munge", "--version", NULL};
    char *text = NULL, package[128];
    unsigned version;

    if (dp_probe_program(munge, 5, &text, NULL) < 0 || !text)
        return;
    version = dp_check_version(text);
    text[strcspn(text, " \n")] = '\0';
    if (version >= FLOOR) {
        dp_check_note(c, DP_FIND_OK, "munge", NULL, "%s", text);
    } else if (dp_check_package("munge", "deb12u", package, sizeof package)) {
        dp_check_note(c, DP_FIND_OK, "munge", NULL, "%s, package %s with the distribution's fix", text, package);
    } else {
        dp_check_note(c, DP_FIND_WARN, "munge",
                      "update to 0.5.18, or to a package with the fix of CVE-2026-25506 (Debian 12: 0.5.15-2+deb12u1)",
                      "%s%s%s: older than 0.5.18", text, *package ? ", package " : "", package);
    }
    free(text);
}

void dp_check_munge(struct dp_check *c)
{
    char socket[256], *text = NULL;
    struct dp_err err;

    find_socket(c, socket, sizeof socket);
    if (dp_probe(round_trip, socket, 5, &text, &err) < 0)
        dp_check_note(c, DP_FIND_FAIL, "munge", "is munged running, and is its socket the right one?",
                      "a credential cannot be created and decoded: %s%s%s", err.text, *socket ? ", socket " : "", socket);
    else
        dp_check_note(c, DP_FIND_OK, "munge", NULL, "a credential can be created and decoded%s%s",
                      *socket ? " through " : "", socket);
    free(text);
    check_version(c);
}
