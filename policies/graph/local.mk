# SPDX-License-Identifier: BSD-3-Clause
# Graphs of layers: readers, planners and their checks (pure functions but for the reading of a file).
noinst_LIBRARIES += policies/libdpgraph.a
policies_libdpgraph_a_SOURCES = \
	policies/graph/check.c policies/graph/check.h policies/graph/graph.c policies/graph/graph.h \
	policies/graph/ideals.c policies/graph/ideals.h policies/graph/line.c policies/graph/line.h \
	policies/graph/plan.c policies/graph/plan.h policies/graph/source.h policies/graph/units.c policies/graph/units.h \
	policies/graph/classes/classes.c policies/graph/classes/classes.h policies/graph/classes/classes_file.c \
	policies/graph/hierarchical/hierarchical.c policies/graph/hierarchical/hierarchical.h \
	policies/graph/hierarchical/ranges.c policies/graph/hierarchical/ranges.h \
	policies/graph/hierarchical/straight.c policies/graph/hierarchical/straight.h policies/graph/hierarchical/bound.c policies/graph/hierarchical/evaluate.c \
	policies/graph/maxload/bound.c policies/graph/maxload/bound.h \
	policies/graph/maxload/count.c policies/graph/maxload/count.h \
	policies/graph/maxload/flow.c policies/graph/maxload/flow.h \
	policies/graph/maxload/lean.c policies/graph/maxload/lean.h \
	policies/graph/maxload/maxload.c policies/graph/maxload/maxload.h policies/graph/maxload/plan_maxload.c \
	policies/graph/maxload/parts.c policies/graph/maxload/parts.h policies/graph/maxload/try_parts.c \
	policies/graph/maxload/refine.c policies/graph/maxload/refine.h \
	policies/graph/maxload/walk.c policies/graph/maxload/walk.h \
	policies/graph/search/closure.c policies/graph/search/closure.h policies/graph/search/draw.h \
	policies/graph/search/genetic.c policies/graph/search/pool.c policies/graph/search/pool.h \
	policies/graph/search/ready.c policies/graph/search/ready.h policies/graph/search/rule.c policies/graph/search/rule.h policies/graph/search/search.c policies/graph/search/search.h \
	policies/graph/papers/alpa.c policies/graph/papers/classes.c policies/graph/papers/dapple.c \
	policies/graph/papers/hetpipe.c policies/graph/papers/hetpipe.h policies/graph/papers/paper.c policies/graph/papers/paper.h policies/graph/papers/papers.h \
	policies/graph/papers/pieces.c policies/graph/papers/pieces.h policies/graph/papers/piper.c policies/graph/papers/two_bw.c \
	policies/graph/read/object.c policies/graph/read/object.h policies/graph/read/read.c policies/graph/read/read.h policies/graph/read/read_costs.c \
	policies/graph/read/read_json.c policies/graph/read/read_json.h policies/graph/read/read_piper.c \
	policies/graph/read/read_profile.c \
	policies/graph/costs/costs.c policies/graph/costs/costs.h policies/graph/costs/costs_file.c policies/graph/costs/costs_file.h \
	policies/graph/costs/estimate.c policies/graph/costs/fit.c policies/graph/costs/fit.h \
	policies/graph/costs/operator.c policies/graph/costs/operator.h

# make bench-graphs: what the searches for orders find, and how long they take
noinst_PROGRAMS += policies/graph/bench/bench_graphs
policies_graph_bench_bench_graphs_SOURCES = policies/graph/bench/bench_graphs.c policies/graph/bench/cells.h
policies_graph_bench_bench_graphs_LDADD = policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm
.PHONY: bench-graphs
bench-graphs: policies/graph/bench/bench_graphs
	policies/graph/bench/bench_graphs $(GRAPHS)

# make fit-costs: coefficients of estimated costs from profiles; make bench-costs: what plans by them are worth
noinst_PROGRAMS += policies/graph/bench/bench_costs
policies_graph_bench_bench_costs_SOURCES = policies/graph/bench/bench_costs.c
policies_graph_bench_bench_costs_LDADD = policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm
.PHONY: fit-costs bench-costs
fit-costs: policies/graph/bench/bench_costs
	@policies/graph/bench/bench_costs $(FITFLAGS) $(PROFILES)
bench-costs: policies/graph/bench/bench_costs
	policies/graph/bench/bench_costs --table $(PROFILES)

if HAVE_CMOCKA
graph_tests = tests/unit/policies/test_graph_bound tests/unit/policies/test_graph_classes tests/unit/policies/test_graph_costs tests/unit/policies/test_graph_hetpipe tests/unit/policies/test_graph_hierarchical tests/unit/policies/test_graph_lean tests/unit/policies/test_graph_papers tests/unit/policies/test_graph_plan tests/unit/policies/test_graph_published \
	tests/unit/policies/test_graph_read tests/unit/policies/test_graph_search tests/unit/policies/test_plan_simulated
graph_libs = policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
check_PROGRAMS += $(graph_tests)
TESTS += $(graph_tests)
tests_unit_policies_test_graph_bound_SOURCES = tests/unit/policies/test_graph_bound.c tests/unit/policies/graph_util.h tests/unit/unit.h \
	tests/unit/random.h
tests_unit_policies_test_graph_bound_LDADD = $(graph_libs)
tests_unit_policies_test_graph_classes_SOURCES = tests/unit/policies/test_graph_classes.c tests/unit/policies/graph_util.h tests/unit/unit.h \
	tests/unit/random.h policies/graph/bench/cells.h
tests_unit_policies_test_graph_classes_LDADD = $(graph_libs)
tests_unit_policies_test_graph_costs_SOURCES = tests/unit/policies/test_graph_costs.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_graph_costs_LDADD = $(graph_libs)
tests_unit_policies_test_graph_hetpipe_SOURCES = tests/unit/policies/test_graph_hetpipe.c tests/unit/unit.h tests/unit/random.h \
	policies/graph/bench/cells.h
tests_unit_policies_test_graph_hetpipe_LDADD = $(graph_libs)
tests_unit_policies_test_graph_hierarchical_SOURCES = tests/unit/policies/test_graph_hierarchical.c tests/unit/policies/graph_util.h tests/unit/unit.h \
	tests/unit/random.h
tests_unit_policies_test_graph_hierarchical_LDADD = $(graph_libs)
tests_unit_policies_test_graph_lean_SOURCES = tests/unit/policies/test_graph_lean.c tests/unit/policies/graph_util.h tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_graph_lean_LDADD = $(graph_libs)
tests_unit_policies_test_graph_papers_SOURCES = tests/unit/policies/test_graph_papers.c tests/unit/policies/graph_util.h tests/unit/policies/simulated.h tests/unit/unit.h \
	tests/unit/random.h policies/graph/bench/cells.h
tests_unit_policies_test_graph_papers_LDADD = policies/libdppolicy.a $(graph_libs)
tests_unit_policies_test_graph_plan_SOURCES = tests/unit/policies/test_graph_plan.c tests/unit/policies/graph_util.h tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_graph_plan_LDADD = $(graph_libs)
tests_unit_policies_test_graph_published_SOURCES = tests/unit/policies/test_graph_published.c tests/unit/unit.h
tests_unit_policies_test_graph_published_LDADD = $(graph_libs)
tests_unit_policies_test_graph_read_SOURCES = tests/unit/policies/test_graph_read.c tests/unit/unit.h
tests_unit_policies_test_graph_read_LDADD = $(graph_libs)
tests_unit_policies_test_graph_search_SOURCES = tests/unit/policies/test_graph_search.c tests/unit/policies/graph_util.h tests/unit/unit.h \
	tests/unit/random.h policies/graph/bench/cells.h
tests_unit_policies_test_graph_search_LDADD = $(graph_libs)
tests_unit_policies_test_plan_simulated_SOURCES = tests/unit/policies/test_plan_simulated.c tests/unit/policies/graph_util.h tests/unit/policies/simulated.h tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_plan_simulated_LDADD = policies/libdppolicy.a $(graph_libs)
endif
