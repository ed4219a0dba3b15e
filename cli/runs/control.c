/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe pause, resume and save: one message, one answer. */
#include <stdio.h>
#include <string.h>

#include "cli/ask/fetch.h"
#include "cli/command/command.h"
#include "cli/show/json.h"

static const struct {
    const char *name;
    enum dp_verb verb;
    const char *done;
} verbs[] = {
    {"pause", DP_VERB_PAUSE, "paused: the layout stays as it is until `dynpipe resume`"},
    {"resume", DP_VERB_RESUME, "resumed: the policy decides again"},
    {"save", DP_VERB_SAVE, "a checkpoint will be written at the next step"},
};

enum dp_exit dp_cmd_control(const struct dp_cli *cli)
{
    size_t v = 0;
    uint32_t job;
    struct dp_err err;

    while (strcmp(verbs[v].name, cli->command->name) != 0)
        v++;
    if (dp_fetch_job(cli, &job, &err) < 0 || dp_fetch_command(cli, verbs[v].verb, job, "", &err) < 0)
        return dp_cmd_fail(cli, &err);
    if (cli->json) {
        json_t *doc = dp_json_envelope(verbs[v].name, "job_id", json_integer(job));

        dp_json_print(doc, false);
        json_decref(doc);
    } else {
        printf("job %u: %s\n", job, verbs[v].done);
    }
    return DP_EXIT_OK;
}
