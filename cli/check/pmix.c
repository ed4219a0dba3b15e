/* SPDX-License-Identifier: BSD-3-Clause */
/* PMIx: Slurm's server side, and the library that the workers start with. Only its version is asked
 * for: a PMIx client is never initialised here, and never as root (CVE-2023-41915). */
#include "config.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check/check.h"
#include "cli/command/probe.h"
#include "cli/show/json.h"

static int ask_version(void *arg, FILE *out)
{
    void *so = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
    const char *(*get)(void);

    (void)arg;
    if (!so) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&get = dlsym(so, "PMIx_Get_version");
    if (!get)
        return 1;
    fputs(get(), out);
    return 0;
}

static void check_library(struct dp_check *c)
{
    char *text = NULL, package[128];
    struct dp_err err;
    unsigned v;

    if (dp_probe(ask_version, NULL, 5, &text, &err) < 0 || !text) {
        dp_check_note(c, DP_FIND_WARN, "pmix", "install libpmix2 on the compute nodes", "no PMIx library: %s", err.text);
        free(text);
        return;
    }
    v = dp_check_version(text);
    text[strcspn(text, ",(")] = '\0'; /* "OpenPMIx 4.2.2 (PMIx Standard: ...)" */
    for (size_t n = strlen(text); n && text[n - 1] == ' '; n--)
        text[n - 1] = '\0';
    if ((v < 40206 || v == 50000) && dp_check_package("libpmix2", "deb12u", package, sizeof package))
        dp_check_note(c, DP_FIND_OK, "pmix", NULL, "%s, package %s with the distribution's fix", text, package);
    else if (v < 40206 || v == 50000)
        dp_check_note(c, DP_FIND_WARN, "pmix",
                      "update to 4.2.6 or 5.0.1, or to a package with the fix of CVE-2023-41915; never start it as root",
                      "%s%s%s: older than 4.2.6", text, *package ? ", package " : "", package);
    else
        dp_check_note(c, DP_FIND_OK, "pmix", NULL, "%s", text);
    free(text);
}

void dp_check_pmix(struct dp_check *c)
{
    char dirs[1024], *rest = dirs, *dir;
    bool any = false;

    check_library(c);
    if (!c->slurm)
        return;
    dp_json_text(dirs, sizeof dirs, c->slurm, "plugindir", "");
    while ((dir = strsep(&rest, ":")) && !any) {
        char pattern[1100];
        glob_t g;

        snprintf(pattern, sizeof pattern, "%s/mpi_pmix*.so", dir);
        any = glob(pattern, 0, NULL, &g) == 0;
        if (any)
            globfree(&g);
    }
    if (any)
        dp_check_note(c, DP_FIND_OK, "srun", NULL, "--mpi=pmix is there");
    else
        dp_check_note(c, DP_FIND_WARN, "srun", "install Slurm's PMIx plugin (mpi_pmix.so)",
                      "no --mpi=pmix: workers find each other by the daemons alone");
}
