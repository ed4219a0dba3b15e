# SPDX-License-Identifier: BSD-3-Clause
# The dynpipe command: one file a subcommand.
bin_PROGRAMS += cli/dynpipe
cli_dynpipe_SOURCES = \
	cli/bars.c cli/bars.h \
	cli/slurm_job.c cli/slurm_job.h \
	cli/canvas.c cli/canvas.h \
	cli/changes.c cli/changes.h \
	cli/check.c cli/check.h cli/check_daemons.c cli/check_munge.c cli/check_nodes.c cli/check_plugin.c \
	cli/check_pmix.c cli/check_slurm.c \
	cli/cluster.c cli/cluster.h cli/cluster_document.c cli/cluster_svg.c cli/cluster_table.c \
	cli/command.h \
	cli/control.c \
	cli/explain.c \
	cli/fetch.c cli/fetch.h cli/replay.c \
	cli/history.c cli/history.h \
	cli/json.c cli/json.h \
	cli/layout.c \
	cli/link.c cli/link.h \
	cli/main.c \
	cli/options.c cli/options.h \
	cli/plan.c cli/plan.h cli/plan_ask.c cli/plan_latency.c cli/plan_names.c cli/plan_patience.c cli/plan_show.c cli/plan_trade.c \
	cli/policy.c cli/policy.h \
	cli/probe.c cli/probe.h \
	cli/report.c cli/report_svg.c cli/report_svg.h \
	cli/run.c cli/run.h \
	cli/saving.c cli/saving.h \
	cli/screen.c cli/screen.h \
	cli/simulate.c cli/simulate_chrome.c cli/simulate_document.c cli/simulate_svg.c cli/simulate_table.c \
	cli/simulate.h cli/timeline.c cli/timeline.h \
	cli/status.c \
	cli/table.c cli/table.h \
	cli/terminal.c cli/terminal.h \
	cli/text.c cli/text.h \
	cli/trade.c cli/trade.h \
	cli/units.c cli/units.h \
	cli/view.h cli/view_curves.c cli/view_head.c cli/view_promise.c cli/view_workers.c \
	cli/watch.c cli/watch.h cli/watch_plain.c cli/watch_screen.c
cli_dynpipe_LDADD = policies/libdpcluster.a common/site/libdpsite.a policies/libdppolicy.a policies/libdpgraph.a common/libdpcommon.a \
	$(JANSSON_LIBS) $(LIBCONFIG_LIBS) $(SLURM_LIBS) $(MUNGE_LIBS) $(CRYPTO_LIBS) -ldl -lm

EXTRA_DIST += tests/cli/lib.sh tests/cli/live_view.py \
	tests/data/cli/explain.json tests/data/cli/report.json tests/data/cli/runs.json \
	tests/data/cli/status.json tests/data/cli/watch.jsonl \
	tests/data/cli/cluster.out tests/data/cli/cluster.svg tests/data/cli/explain.out tests/data/cli/explain-one.out tests/data/cli/layout.out \
	tests/data/cli/plan.out tests/data/cli/plan-costs.json tests/data/cli/plan-costs.out \
	tests/data/cli/report.out tests/data/cli/report.svg tests/data/cli/simulate.out tests/data/cli/simulate.svg \
	tests/data/cli/status-ascii.out tests/data/cli/status-color.out \
	tests/data/cli/status-format.out tests/data/cli/status-names.out tests/data/cli/status-narrow.out \
	tests/data/cli/status-one.out tests/data/cli/status-table.out tests/data/cli/watch-plain.out
cli_tests = tests/cli/check.t tests/cli/cluster.t tests/cli/commands.t tests/cli/completion.t tests/cli/examples.t tests/cli/manpages.t tests/cli/names.t tests/cli/paper.t tests/cli/plan.t tests/cli/real.t tests/cli/remote.t tests/cli/simulate.t tests/cli/usage.t tests/cli/watch.t
dist_check_SCRIPTS += $(cli_tests)
TESTS += $(cli_tests)
