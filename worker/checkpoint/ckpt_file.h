/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of checkpoint.c: whole files with digests, and directories that stay. */
#ifndef DP_WORKER_CHECKPOINT_CKPT_FILE_H
#define DP_WORKER_CHECKPOINT_CKPT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/message/msg.h"

/* returns 0, or -1 with DP_ENOTSUP: libcrypto has no SHA-256. */
int dp_ckpt_sha256(const void *data, size_t bytes, uint8_t out[DP_DIGEST_BYTES], struct dp_err *err);
/* 64 small hexadecimal digits and a NUL. */
void dp_ckpt_hex(const uint8_t digest[DP_DIGEST_BYTES], char out[2 * DP_DIGEST_BYTES + 1]);
/* returns 0, or -1 for text that is no digest. */
int dp_ckpt_unhex(const char *text, uint8_t out[DP_DIGEST_BYTES]);

/* Create or replace `path`, sync it. */
int dp_ckpt_file_write(const char *path, const void *data, size_t bytes, struct dp_err *err);
/* The whole file, NUL-terminated; the caller frees. NULL: DP_EIO, or DP_ECORRUPT when it is missing. */
uint8_t *dp_ckpt_file_read(const char *path, size_t *bytes, struct dp_err *err);
/* Make names in the directory survive a crash. returns 0, or -1 with DP_EIO. */
int dp_ckpt_dir_sync(const char *path, struct dp_err *err);
/* Remove a checkpoint's directory with the files in it. */
int dp_ckpt_dir_remove(const char *path, struct dp_err *err);

#endif
