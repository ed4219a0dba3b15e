/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe simulate: a model description or a recorded run through the simulator (policies/sim/), as
 * tables, JSON, a Chrome trace or a picture. */
#include "cli/simulate/simulate.h"

#include <stdio.h>
#include <string.h>

#include "cli/command/policy.h"
#include "cli/show/json.h"
#include "cli/show/text.h"
#include "cli/simulate/advice.h"
#include "cli/simulate/cluster.h"
#include "cli/simulate/timeline.h"
#include "common/schedule/schedule.h"
#include "policies/cluster/scheduler.h"
#include "policies/list.h"
#include "policies/policy.h"
#include "policies/sim/case/read.h"
#include "policies/sim/scheme/scheme.h"

#define MOST_TRADED 3e6 /* operations of the run */

struct collector {
    const struct dp_sim_case *c;
    json_t *phases;
    uint64_t draw; /* iteration */
    bool wants_timeline, wants_stages;
    struct dp_timeline timeline;
};

static int collect(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    struct collector *k = arg;
    bool is_drawn = k->draw >= p->first && k->draw < p->first + p->n;

    if (json_array_append_new(k->phases, dp_simulate_phase(k->c, p, k->wants_stages || is_drawn)) < 0)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    if (!k->wants_timeline || !is_drawn)
        return 0;
    return dp_timeline_take(k->c, p, k->draw, &k->timeline, err);
}

static int draw(const struct dp_cli *cli, const struct collector *k, struct dp_err *err)
{
    char title[256];

    dp_text_clean(title, sizeof title, k->c->name[0] ? k->c->name : cli->files[0]);
    if (cli->simulate.chrome_trace && dp_timeline_chrome(&k->timeline, title, cli->simulate.chrome_trace, err) < 0)
        return -1;
    return cli->svg ? dp_timeline_svg(&k->timeline, title, cli->svg, err) : 0;
}

/* The trade plays the run again for each number of devices: not where that takes more than a moment. */
static bool is_small(const struct dp_sim_case *c, const struct dp_sim_totals *t)
{
    return (double)t->simulated * c->devices * c->chunks * c->microbatches * c->replicas < MOST_TRADED;
}

static int advise(const struct dp_sim_case *c, const struct dp_saving *saving, json_t *document, struct dp_err *err)
{
    struct dp_advice advice;
    int rc = dp_sim_advise(c, saving, &advice, err);
    json_t *o = rc == 0 ? dp_advice_json(c, &advice) : NULL;

    if (rc == 0 && (!o || json_object_set_new(document, "advice", o) < 0))
        rc = dp_err_set(err, DP_ENOMEM, "out of memory");
    dp_advice_release(&advice);
    return rc;
}

/* What a scheme gains is not called pruning. */
static void name_what_gains(const struct dp_cli *cli, json_t *document)
{
    const json_t *phases = dp_json_list(document, "phases"), *last = json_array_get(phases, json_array_size(phases) - 1);
    json_t *saving = json_object_get(document, "saving");
    char text[96];

    snprintf(text, sizeof text, "%sscheme %.*s", dp_json_number(last, "density") < 1 ? "pruning and " : "",
             (int)strcspn(cli->simulate.scheme, ","), cli->simulate.scheme);
    if (json_is_object(saving))
        json_object_set_new(saving, "cheaper_by", json_string(text));
}

/* Simulate a case that was read. document: = new reference. */
static int simulate(const struct dp_cli *cli, const struct dp_sim_case *c, struct collector *k, json_t **document,
                    struct dp_err *err)
{
    struct dp_sim_totals totals;
    struct dp_saving saving;
    struct dp_trade trade;
    bool has_saving, has_trade;

    k->c = c;
    k->draw = cli->simulate.draw ? cli->simulate.draw : c->iterations;
    k->wants_stages = cli->json || cli->format;
    k->wants_timeline = cli->simulate.chrome_trace || cli->svg;
    if (k->draw > c->iterations)
        return dp_err_set(err, DP_EINVAL, "--draw=%llu: the run has %llu iterations", (unsigned long long)k->draw,
                          (unsigned long long)c->iterations);
    if (dp_sim_run(c, collect, k, &totals, err) < 0)
        return dp_err_prefix(err, "%s", cli->files[0]);
    if (draw(cli, k, err) < 0)
        return -1;
    has_saving = dp_sim_has_ways(c);
    if (has_saving && dp_sim_saving(c, &saving, err) < 0)
        return dp_err_prefix(err, "%s", cli->files[0]);
    has_trade = has_saving && is_small(c, &totals);
    if (has_trade)
        dp_sim_trade(c, &saving, &trade);
    *document = dp_simulate_document(c, &totals, has_saving ? &saving : NULL, has_trade ? &trade : NULL, json_incref(k->phases));
    if (!*document)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    if (cli->simulate.scheme)
        name_what_gains(cli, *document);
    if (cli->simulate.advise && advise(c, &saving, *document, err) < 0)
        return dp_err_prefix(err, "%s", cli->files[0]);
    return 0;
}

static enum dp_exit show(const struct dp_cli *cli, json_t *document, uint64_t iteration)
{
    struct dp_err err;

    if (cli->json) {
        json_t *whole = dp_json_envelope("simulate", "simulation", json_incref(document));

        dp_json_print(whole, false);
        json_decref(whole);
        return DP_EXIT_OK;
    }
    if ((cli->simulate.advise ? dp_advice_print(cli, document, &err)
                              : dp_simulate_print(cli, document, iteration, &err)) < 0) {
        fprintf(stderr, "dynpipe simulate: %s\n", err.text);
        return DP_EXIT_USAGE;
    }
    return DP_EXIT_OK;
}

static bool is_help(const char *value)
{
    return value && !strcmp(value, "help");
}

/* What the options that ask for help can be. Names first, without blanks: for shell completion, too. */
static bool list_names(const struct dp_cli *cli)
{
    const struct dp_policy *p;

    if (is_help(cli->simulate.balance))
        for (size_t i = 0; (p = dp_policy_at(i)); i++)
            printf("%-21s %s\n", p->name, p->help);
    if (is_help(cli->simulate.schedule))
        for (int i = 0; i < DP_N_SCHEDULES; i++)
            printf("%-21s %s\n", dp_schedules[i].name, dp_schedules[i].help);
    if (is_help(cli->simulate.scheme))
        for (size_t i = 0; dp_sim_scheme_at(i); i++)
            printf("%-21s %s\n", dp_sim_scheme_at(i)->name, dp_sim_scheme_at(i)->help);
    if (is_help(cli->simulate.scheduler))
        for (int i = 0; i < DP_CLUSTER_SCHEDULERS; i++)
            printf("%-21s %s\n", dp_cluster_schedulers[i].name, dp_cluster_schedulers[i].help);
    return is_help(cli->simulate.balance) || is_help(cli->simulate.schedule) || is_help(cli->simulate.scheduler) ||
           is_help(cli->simulate.scheme);
}

/* --scheme=NAME,help: the keys of one. */
static bool list_keys(const char *text)
{
    size_t name = text ? strcspn(text, ",") : 0;
    const struct dp_sim_scheme *s;

    if (!name || !text[name] || !is_help(text + name + 1))
        return false;
    for (size_t i = 0; (s = dp_sim_scheme_at(i)); i++) {
        if (strlen(s->name) != name || memcmp(s->name, text, name) != 0)
            continue;
        for (const struct dp_sim_scheme_key *k = s->rule->key; k->name; k++)
            if (k->choices)
                printf("%-12s %s: %s (the first)\n", k->name, k->help, k->choices);
            else
                printf("%-12s %s, %g to %g (%.3g)\n", k->name, k->help, k->low, k->high, k->fallback);
        printf("costs: %s\n", s->rule->source);
        return true;
    }
    return false; /* the name is wrong: parsing says so */
}

static int use_scheme(const void *choice, struct dp_sim_case *c, struct dp_err *err)
{
    return dp_sim_scheme_use(choice, c, err);
}

/* Take --scheme; *choice: where it was given. returns -1: it is wrong, which is said. */
static int take_scheme(const char *text, struct dp_sim_scheme_choice *choice)
{
    struct dp_err err;

    if (!text || dp_sim_scheme_parse(text, choice, &err) == 0)
        return 0;
    fprintf(stderr, "dynpipe simulate: --scheme: %s\n", err.text);
    return -1;
}

/* Options that are wrong whatever the files say. */
static bool options_fit(const struct dp_cli *cli)
{
    const char *schedule = cli->simulate.schedule;
    enum dp_schedule_kind found;
    struct dp_err err;

    if (cli->simulate.scheduler || cli->simulate.save_swf || cli->simulate.seed) {
        fprintf(stderr, "dynpipe simulate: --%s requires --cluster\n",
                cli->simulate.scheduler ? "scheduler" : cli->simulate.seed ? "seed" : "save-swf");
        return false;
    }
    if (schedule && dp_schedule_find(schedule, &found, &err) < 0) {
        fprintf(stderr, "dynpipe simulate: --schedule=%s: %s\n", schedule, err.text);
        return false;
    }
    return true;
}

enum dp_exit dp_cmd_simulate(const struct dp_cli *cli)
{
    struct dp_sim_override with = {
        .schedule = cli->simulate.schedule,
        .devices = cli->simulate.devices,
        .devices_per_node = cli->simulate.devices_per_node,
        .chunks = cli->simulate.chunks,
        .microbatches = cli->simulate.microbatches,
        .replicas = cli->simulate.replicas,
        .iterations = cli->simulate.iterations,
        .bytes_per_s = cli->simulate.gb_per_s * 1e9,
        .is_straight = cli->straight || cli->simulate.advise, /* advice is of pipelines of single devices */
    };
    struct collector k = {0};
    struct dp_sim_scheme_choice scheme;
    struct dp_cli_policy policy;
    struct dp_sim_case c;
    json_t *document = NULL;
    enum dp_exit code;
    struct dp_err err;

    if (list_names(cli) || list_keys(cli->simulate.scheme))
        return DP_EXIT_OK;
    if (cli->simulate.cluster)
        return dp_simulate_cluster(cli);
    if (!options_fit(cli) || take_scheme(cli->simulate.scheme, &scheme) < 0)
        return DP_EXIT_USAGE;
    with.change = cli->simulate.scheme ? use_scheme : NULL;
    with.change_arg = &scheme;
    if (dp_cli_policy_take("balance", cli->simulate.balance, cli->arguments, &policy, &err) < 0) {
        fprintf(stderr, "dynpipe simulate: %s\n", err.text);
        return DP_EXIT_USAGE;
    }
    with.policy = policy.name;
    with.own = policy.own;
    with.own_state = policy.own_state;
    if (dp_sim_read(cli->n_files, cli->files, &with, &c, &err) < 0)
        return dp_cmd_fail(cli, &err);
    k.phases = json_array();
    if (simulate(cli, &c, &k, &document, &err) == 0)
        code = show(cli, document, k.draw);
    else
        code = dp_cmd_fail(cli, &err);
    json_decref(document);
    json_decref(k.phases);
    dp_timeline_release(&k.timeline);
    dp_sim_case_release(&c);
    return code;
}
