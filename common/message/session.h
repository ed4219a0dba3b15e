/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is at the other end of a TCP connection, and proof with every frame that it is still the same:
 * doc/protocol.md, "Session".
 *
 * acceptor                                      connector
 *   CHALLENGE(nonce, node)          ->
 *                                   <-   AUTH(node, credential)
 *   AUTH_OK(proof)                  ->
 *   header | body | tag            <->   header | body | tag
 *
 * Versions (msg.h): a CHALLENGE is of version DP_PROTO_MIN, and its nonce ends with the highest version of the
 * acceptor, which an older connector takes for random bytes. The connector chooses; AUTH and all that follows are of
 * that version, and the credential seals it together with the nonce: who changes either on the way is found out, so
 * nobody can talk two sides into a version below the best that both have.
 *
 * The munge credential seals (encrypts and authenticates) a struct dp_handshake with a new session
 * key. Functions marked "blocks" talk to munged, which can hang: never in an event loop.
 */
#ifndef DP_COMMON_MESSAGE_SESSION_H
#define DP_COMMON_MESSAGE_SESSION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/message/msg.h"

#define DP_TAG_BYTES DP_DIGEST_BYTES
#define DP_ANY_UID ((uid_t)-1) /* chown(2)'s "no user" */

enum dp_purpose { DP_PURPOSE_PEER = 1, DP_PURPOSE_CLI = 2 };

/* What the connector seals. */
struct dp_handshake {
    uint16_t version;    /* of this session */
    uint8_t purpose;     /* enum dp_purpose */
    dp_digest_t nonce;   /* of the CHALLENGE that it answers */
    dp_digest_t key;     /* new for each connection */
    char connector[64];  /* its node, empty for a command line */
    char acceptor[64];   /* the node that it believes to talk to */
};

/* One authenticated direction pair: counters and keys. */
struct dp_session {
    dp_digest_t key_out, key_in;   /* of tags */
    dp_digest_t seal_out, seal_in; /* of sealed keys */
    uint64_t seq_out, seq_in, n_sealed;
};

/* Bytes from the kernel's random generator. */
int dp_random(void *out, size_t bytes, struct dp_err *err);

/* A new nonce, which says what we speak. */
int dp_challenge_init(struct dp_msg_challenge *challenge, struct dp_err *err);

/* Begin an answer to a challenge: copies its nonce and node, takes the version, makes a new key. */
int dp_handshake_init(struct dp_handshake *hs, enum dp_purpose purpose, const char *connector,
                      const struct dp_msg_challenge *challenge, struct dp_err *err);

/* Blocks. Turn a handshake into a credential that only `reader` (DP_ANY_UID: anybody in the munge
 * realm) can open, for 60 s. munge_socket NULL: munge's default. cap: bytes of out. */
int dp_handshake_seal(const struct dp_handshake *hs, const char *munge_socket, uid_t reader, char *out,
                      size_t cap, struct dp_err *err);

/* Blocks. Open a credential: *hs as it was sealed, the uid that munge vouches for, and (NULL: not asked) the
 * address of the host where it was made, as munged there knows it; 0 where it does not. */
int dp_handshake_open(const char *credential, const char *munge_socket, struct dp_handshake *hs, uid_t *uid,
                      struct in_addr *sealed_at, struct dp_err *err);

/* Is it an answer to this very challenge, and does it name its sender and version as AUTH did? DP_EAUTH if not. */
int dp_handshake_check(const struct dp_handshake *hs, const struct dp_msg_challenge *challenge,
                       const char *auth_node, uint16_t auth_version, struct dp_err *err);

/* What AUTH_OK carries: it shows the connector that the acceptor could open the credential. */
void dp_handshake_proof(const struct dp_handshake *hs, dp_digest_t proof);

/* Both directions' keys from the handshake. */
void dp_session_init(struct dp_session *s, const struct dp_handshake *hs, bool is_acceptor);

/* Tag for the next frame out, or check of the next frame in; each call uses up one number of its
 * direction, so a frame that was repeated, dropped or put in another order fails (DP_EAUTH). */
void dp_session_sign(struct dp_session *s, const uint8_t header[DP_HEADER_BYTES], const void *body,
                     size_t bytes, uint8_t tag[DP_TAG_BYTES]);
int dp_session_verify(struct dp_session *s, const uint8_t header[DP_HEADER_BYTES], const void *body,
                      size_t bytes, const uint8_t tag[DP_TAG_BYTES], struct dp_err *err);

/* Frames are not encrypted, so a run's key travels sealed: AES-256-GCM under a key of its own for each direction, with
 * the number of the seal as nonce. `of` says what the key is for (its job, step and restart count); opening it as
 * another's fails (DP_EAUTH). sealed: number u64 | 16 bytes | tag of 16 bytes. */
#define DP_SEAL_OF 3
/* returns 0, or -1 with DP_EIO (no memory). Each call uses up a number; no number seals twice. */
int dp_session_seal(struct dp_session *s, const uint8_t key[DP_KEY_BYTES], const uint32_t of[DP_SEAL_OF],
                    uint8_t sealed[DP_SEALED_KEY_BYTES], struct dp_err *err);
/* Takes seals in any order, the same one again, too. returns 0, or -1 with DP_EAUTH and key overwritten with zeroes. */
int dp_session_unseal(const struct dp_session *s, const uint8_t sealed[DP_SEALED_KEY_BYTES], const uint32_t of[DP_SEAL_OF],
                      uint8_t key[DP_KEY_BYTES], struct dp_err *err);

/* Compare in a time that does not depend on where they differ. */
bool dp_digest_equal(const dp_digest_t a, const dp_digest_t b);

#endif
