# SPDX-License-Identifier: BSD-3-Clause
# The dynpipe command.
bin_PROGRAMS += cli/dynpipe
cli_dynpipe_SOURCES = \
	cli/main.c \
	cli/runs/changes.c cli/runs/changes.h cli/runs/control.c cli/runs/explain.c cli/runs/layout.c cli/runs/report.c \
	cli/runs/report_svg.c cli/runs/report_svg.h cli/runs/status.c cli/runs/view.h cli/runs/view_curves.c \
	cli/runs/view_head.c cli/runs/view_copies.c cli/runs/view_growth.c cli/runs/view_promise.c cli/runs/view_proposal.c cli/runs/view_workers.c cli/runs/watch.c cli/runs/watch.h \
	cli/runs/watch_plain.c cli/runs/watch_screen.c \
	cli/plan/ask.c cli/plan/classes.c cli/plan/workers.c \
	cli/plan/costs.c cli/plan/latency.c cli/plan/names.c cli/plan/networks.c cli/plan/patience.c cli/plan/plan.c cli/plan/plan.h \
	cli/plan/show.c cli/plan/trade.c \
	cli/learn/evaluate.c cli/learn/learn.c cli/learn/learn.h \
	cli/simulate/advice.c cli/simulate/advice.h \
	cli/simulate/chrome.c cli/simulate/cluster.c cli/simulate/cluster.h cli/simulate/cluster_document.c \
	cli/simulate/cluster_svg.c cli/simulate/cluster_table.c cli/simulate/document.c \
	cli/simulate/simulate.c cli/simulate/simulate.h cli/simulate/svg.c cli/simulate/table.c \
	cli/simulate/timeline.c cli/simulate/timeline.h \
	cli/check/check.c cli/check/check.h cli/check/daemons.c cli/check/munge.c cli/check/nodes.c cli/check/plugin.c \
	cli/check/pmix.c cli/check/slurm.c \
	cli/ask/fetch.c cli/ask/fetch.h cli/ask/history.c cli/ask/history.h cli/ask/link.c cli/ask/link.h cli/ask/replay.c \
	cli/ask/run.c cli/ask/run.h \
	cli/command/command.h cli/command/options.c cli/command/options.h cli/command/policy.c cli/command/policy.h \
	cli/command/probe.c cli/command/probe.h cli/command/slurm_job.c cli/command/slurm_job.h \
	cli/show/bars.c cli/show/bars.h cli/show/canvas.c cli/show/canvas.h cli/show/json.c cli/show/json.h \
	cli/show/save.c cli/show/save.h \
	cli/show/saving.c cli/show/saving.h cli/show/screen.c cli/show/screen.h cli/show/table.c cli/show/table.h \
	cli/show/terminal.c cli/show/terminal.h cli/show/text.c cli/show/text.h cli/show/trade.c cli/show/trade.h \
	cli/show/units.c cli/show/units.h
cli_dynpipe_LDADD = policies/libdpcluster.a common/site/libdpsite.a policies/libdppolicy.a policies/libdplearn.a policies/libdpgraph.a common/libdpcommon.a \
	$(JANSSON_LIBS) $(LIBCONFIG_LIBS) $(SLURM_LIBS) $(MUNGE_LIBS) $(CRYPTO_LIBS) -ldl -lm -lpthread

EXTRA_DIST += tests/cli/lib.sh tests/cli/live_view.py \
	tests/data/cli/explain.json tests/data/cli/report.json tests/data/cli/runs.json \
	tests/data/cli/status.json tests/data/cli/watch.jsonl \
	tests/data/cli/cluster.out tests/data/cli/cluster.svg tests/data/cli/explain.out tests/data/cli/explain-one.out tests/data/cli/layout.out \
	tests/data/cli/plan.out tests/data/cli/plan-costs.json tests/data/cli/plan-costs.out \
	tests/data/cli/plan-piper.json tests/data/cli/plan-piper.out \
	tests/data/cli/report.out tests/data/cli/report.svg tests/data/cli/simulate.out tests/data/cli/simulate.svg \
	tests/data/cli/status-ascii.out tests/data/cli/status-color.out \
	tests/data/cli/status-format.out tests/data/cli/status-names.out tests/data/cli/status-narrow.out \
	tests/data/cli/status-one.out tests/data/cli/status-table.out tests/data/cli/watch-plain.out
cli_tests = tests/cli/advise.t tests/cli/check.t tests/cli/cluster.t tests/cli/commands.t tests/cli/completion.t tests/cli/costs.t tests/cli/documents.t tests/cli/examples.t tests/cli/learn.t tests/cli/manpages.t tests/cli/names.t tests/cli/paper.t tests/cli/plan.t tests/cli/real.t tests/cli/remote.t tests/cli/scheme.t tests/cli/simulate.t tests/cli/trainer.t tests/cli/usage.t tests/cli/watch.t
dist_check_SCRIPTS += $(cli_tests)
TESTS += $(cli_tests)

EXTRA_DIST += cli/learn/README.md cli/README.md cli/ask/README.md cli/check/README.md cli/command/README.md cli/plan/README.md cli/runs/README.md cli/show/README.md cli/simulate/README.md
