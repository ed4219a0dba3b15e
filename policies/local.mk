# SPDX-License-Identifier: BSD-3-Clause
# Policies and their models: pure functions, no clock, no sockets.
noinst_LIBRARIES += policies/libdppolicy.a
policies_libdppolicy_a_SOURCES = \
	policies/balancer.c policies/balancer.h policies/diffusion.c policies/helpers.c policies/keep.c \
	policies/list.c policies/list.h policies/nicol.c policies/param.c policies/policy.c policies/policy.h \
	policies/chain_problem.c policies/chain_problem.h policies/time.c policies/time_comm.c policies/uniform.c \
	policies/baselines/deepspeed.c policies/baselines/deepspeed_range.c policies/baselines/dynmo.c \
	policies/baselines/dynmo_diffusion.c policies/baselines/first_fit.c policies/baselines/first_fit.h \
	policies/baselines/torchgpipe.c \
	policies/decide/correction.c policies/decide/correction.h policies/decide/decide.c policies/decide/decide.h \
	policies/decide/foresee.c policies/decide/foresee.h policies/decide/noise.c policies/decide/noise.h policies/decide/grow.c policies/decide/grow.h policies/decide/pack.c policies/decide/pack.h policies/decide/pack_lasting.c \
	policies/decide/pack_hosts.c policies/decide/pack_hosts.h policies/decide/pack_sets.c policies/decide/pack_sets.h policies/decide/promise.c policies/decide/promise.h \
	policies/decide/pruning.c policies/decide/pruning.h policies/decide/release_when.c policies/decide/release_when.h \
	policies/predict/answer.c policies/predict/answer.h policies/predict/iteration.c \
	policies/predict/links.c policies/predict/links.h \
	policies/predict/predict.c policies/predict/predict.h \
	policies/saving/advice.c policies/saving/advice.h policies/saving/notation.c policies/saving/notation.h policies/saving/saving.c policies/saving/saving.h policies/saving/saving_json.c policies/saving/saving_json.h \
	policies/saving/trade.c policies/saving/trade.h policies/saving/ways.c policies/saving/ways.h \
	policies/sim/balance.c policies/sim/balance.h policies/sim/balance_chain.c policies/sim/balance_chain.h \
	policies/sim/recut.c policies/sim/recut.h policies/sim/replan.c policies/sim/replan.h \
	policies/sim/run.c policies/sim/run.h policies/sim/stages.c policies/sim/stages.h \
	policies/sim/case/case.c policies/sim/case/case.h policies/sim/case/fields.c policies/sim/case/fields.h \
	policies/sim/case/read.c policies/sim/case/read.h policies/sim/case/read_graph.c policies/sim/case/read_graph.h \
	policies/sim/case/read_model.c policies/sim/case/read_trace.c \
	policies/sim/case/trace_parts.c policies/sim/case/trace_parts.h \
	policies/sim/iteration/implied.c policies/sim/iteration/implied.h \
	policies/sim/iteration/iteration.c policies/sim/iteration/iteration.h policies/sim/iteration/lower_bound.c \
	policies/sim/iteration/actions.c policies/sim/iteration/actions.h \
	policies/sim/iteration/program.c policies/sim/iteration/program.h \
	policies/sim/scheme/scheme.c policies/sim/scheme/scheme.h policies/sim/scheme/list.h policies/sim/scheme/use.c \
	policies/sim/scheme/freeze.c policies/sim/scheme/drop.c policies/sim/scheme/moe.c policies/sim/scheme/mod.c \
	policies/sim/scheme/early_exit.c policies/sim/scheme/sparse_attention.c \
	policies/solve/bins.c policies/solve/bins.h policies/solve/bisect.c policies/solve/bisect.h \
	policies/solve/chain.c policies/solve/chain.h policies/solve/diffuse.c policies/solve/diffuse.h \
	policies/solve/front.c policies/solve/front.h policies/solve/nicol.c policies/solve/nicol.h \
	policies/solve/partition.c policies/solve/partition.h \
	policies/solve/partition_depth.c policies/solve/partition_depth.h \
	policies/solve/partition_links.c policies/solve/partition_links.h \
	policies/solve/partition_near.c policies/solve/partition_near.h

# What a site compiles its own policies against: etc/examples/headroom.c shows how. Each policy brings its
# own copy of the helpers, so that nothing but struct dp_policy lies between it and the daemon.
policyincludedir = $(includedir)/dynpipe
nobase_policyinclude_HEADERS = common/err.h common/run/layout.h common/run/load.h common/schedule/list.h policies/policy.h
lib_LIBRARIES = policies/libdynpipe-policy.a
policies_libdynpipe_policy_a_SOURCES = \
	common/err.c common/run/layout.c common/run/megatron.c \
	$(schedule_sources) \
	policies/helpers.c policies/chain_problem.c policies/chain_problem.h \
	policies/solve/bins.c policies/solve/bins.h policies/solve/bisect.c policies/solve/bisect.h policies/solve/chain.c policies/solve/chain.h \
	policies/solve/partition.c policies/solve/partition.h \
	policies/solve/partition_depth.c policies/solve/partition_depth.h \
	policies/solve/partition_links.c policies/solve/partition_links.h \
	policies/solve/partition_near.c policies/solve/partition_near.h
policies_libdynpipe_policy_a_CFLAGS = $(AM_CFLAGS) -fPIC
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = etc/dynpipe-policy.pc

# make bench-balance: what the balancers take, on chains of any size
noinst_PROGRAMS += policies/bench/bench_balance
policies_bench_bench_balance_SOURCES = policies/bench/bench_balance.c
policies_bench_bench_balance_LDADD = policies/libdppolicy.a common/libdpcommon.a -lm
.PHONY: bench-balance
bench-balance: policies/bench/bench_balance
	policies/bench/bench_balance
# make bench-reference: what each reference makes of pruned runs
noinst_PROGRAMS += policies/bench/bench_reference
policies_bench_bench_reference_SOURCES = policies/bench/bench_reference.c policies/bench/recorded_loads.h
policies_bench_bench_reference_LDADD = policies/libdppolicy.a common/libdpcommon.a -lm
.PHONY: bench-reference
bench-reference: policies/bench/bench_reference
	policies/bench/bench_reference
dist_check_SCRIPTS += tests/bench/bench_reference.t
TESTS += tests/bench/bench_reference.t
# make paper: the papers' setting, simulated
.PHONY: paper
paper: cli/dynpipe
	$(srcdir)/policies/sim/paper/paper --dynpipe cli/dynpipe $(PAPERFLAGS)
EXTRA_DIST += policies/sim/paper/densities.jq policies/sim/paper/densities.json policies/sim/paper/model.jq policies/sim/paper/paper \
	policies/sim/paper/paper.gp policies/sim/paper/published.txt policies/sim/paper/study.jq

if HAVE_CMOCKA
policy_tests = tests/unit/policies/test_balance_chain tests/unit/policies/test_balancers tests/unit/policies/test_best_layout tests/unit/policies/test_diffusion tests/unit/policies/test_foresee tests/unit/policies/test_grow tests/unit/policies/test_noise tests/unit/policies/test_partition tests/unit/policies/test_sim_iteration tests/unit/policies/test_sim_run tests/unit/policies/test_sim_scheme tests/unit/policies/test_sim_wide tests/unit/policies/test_pack tests/unit/policies/test_pack_hosts tests/unit/policies/test_policy tests/unit/policies/test_promise tests/unit/policies/test_pruning tests/unit/policies/test_saving
policy_libs = policies/libdppolicy.a common/libdpcommon.a $(CMOCKA_LIBS) -lm
check_PROGRAMS += $(policy_tests)
TESTS += $(policy_tests)
tests_unit_policies_test_balance_chain_SOURCES = tests/unit/policies/test_balance_chain.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_balance_chain_LDADD = $(policy_libs)
tests_unit_policies_test_balancers_SOURCES = tests/unit/policies/test_balancers.c tests/unit/policies/snapshots.h tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_balancers_LDADD = $(policy_libs)
tests_unit_policies_test_best_layout_SOURCES = tests/unit/policies/test_best_layout.c tests/unit/policies/snapshots.h tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_best_layout_LDADD = $(policy_libs)
tests_unit_policies_test_diffusion_SOURCES = tests/unit/policies/test_diffusion.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_diffusion_LDADD = $(policy_libs)
tests_unit_policies_test_foresee_SOURCES = tests/unit/policies/test_foresee.c tests/unit/unit.h
tests_unit_policies_test_foresee_LDADD = $(policy_libs)
tests_unit_policies_test_grow_SOURCES = tests/unit/policies/test_grow.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_grow_LDADD = $(policy_libs)
tests_unit_policies_test_noise_SOURCES = tests/unit/policies/test_noise.c tests/unit/random.h tests/unit/unit.h
tests_unit_policies_test_noise_LDADD = $(policy_libs)
tests_unit_policies_test_partition_SOURCES = tests/unit/policies/test_partition.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_partition_LDADD = $(policy_libs)
tests_unit_policies_test_sim_iteration_SOURCES = tests/unit/policies/test_sim_iteration.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_sim_iteration_LDADD = $(policy_libs)
tests_unit_policies_test_sim_run_SOURCES = tests/unit/policies/test_sim_run.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_sim_run_LDADD = policies/libdppolicy.a policies/libdpgraph.a common/libdpcommon.a $(CMOCKA_LIBS) -lm $(JANSSON_LIBS)
tests_unit_policies_test_sim_scheme_SOURCES = tests/unit/policies/test_sim_scheme.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_sim_scheme_LDADD = policies/libdppolicy.a policies/libdpgraph.a common/libdpcommon.a $(CMOCKA_LIBS) -lm $(JANSSON_LIBS)
tests_unit_policies_test_sim_wide_SOURCES = tests/unit/policies/test_sim_wide.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_sim_wide_LDADD = $(policy_libs)
tests_unit_policies_test_pruning_SOURCES = tests/unit/policies/test_pruning.c policies/bench/recorded_loads.h tests/unit/unit.h
tests_unit_policies_test_pruning_LDADD = $(policy_libs)
tests_unit_policies_test_saving_SOURCES = tests/unit/policies/test_saving.c tests/unit/unit.h
tests_unit_policies_test_saving_LDADD = $(policy_libs)
tests_unit_policies_test_pack_SOURCES = tests/unit/policies/test_pack.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_pack_LDADD = $(policy_libs)
tests_unit_policies_test_pack_hosts_SOURCES = tests/unit/policies/test_pack_hosts.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_pack_hosts_LDADD = $(policy_libs)
tests_unit_policies_test_promise_SOURCES = tests/unit/policies/test_promise.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_promise_LDADD = $(policy_libs)
tests_unit_policies_test_policy_SOURCES = tests/unit/policies/test_policy.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_policy_LDADD = $(policy_libs)
endif

EXTRA_DIST += policies/README.md policies/baselines/README.md policies/bench/README.md policies/cluster/README.md policies/cluster/generate/README.md policies/cluster/read/README.md policies/decide/README.md policies/graph/README.md policies/graph/bench/README.md policies/graph/classes/README.md policies/graph/costs/README.md policies/graph/hierarchical/README.md policies/graph/maxload/README.md policies/graph/papers/README.md policies/graph/read/README.md policies/graph/search/README.md policies/predict/README.md policies/saving/README.md policies/sim/README.md policies/sim/case/README.md policies/sim/iteration/README.md policies/sim/scheme/README.md policies/solve/README.md
