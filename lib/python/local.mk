# SPDX-License-Identifier: BSD-3-Clause
# parts of lib/python/ (see Makefile.am)
if PYTHON_MODULE
dynpipepythondir = $(pythondir)/dynpipe
dynpipepython_DATA = $(python_module)
endif
python_module = lib/python/dynpipe/__init__.py lib/python/dynpipe/_abi.py lib/python/dynpipe/torch.py \
	lib/python/dynpipe/_torch_state.py lib/python/dynpipe/_torch_timers.py
EXTRA_DIST += lib/python/README.md $(python_module)

# The stand-in for libdynpipe is built without a sanitizer: Python could not load it.
check_PROGRAMS += tests/python/scripted_dynpipe.so
tests_python_scripted_dynpipe_so_SOURCES = tests/python/scripted_dynpipe.c lib/dynpipe.h
tests_python_scripted_dynpipe_so_CFLAGS = -std=gnu11 $(WARN_CFLAGS) -fPIC
tests_python_scripted_dynpipe_so_LDFLAGS = -shared
tests_python_scripted_dynpipe_so_LDADD =
python_tests = tests/python/binding.t tests/python/daemon.t tests/python/own_loop.t tests/python/torch.t
EXTRA_DIST += tests/python/binding.py tests/python/torch_faults.py tests/python/torch_parts.py
dist_check_SCRIPTS += $(python_tests)
TESTS += $(python_tests)
