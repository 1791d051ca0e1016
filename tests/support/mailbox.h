/* What a comm's mailboxes hold while nothing is under way. */
#ifndef RONDO_TESTS_MAILBOX_H
#define RONDO_TESTS_MAILBOX_H

#include "comm/limits.h"
#include "support/rig.h"

/* Whether a copy of one lane's mailbox is as at rest: all lines are empty, nothing is escaped. It says where it is not. */
bool mailbox_at_rest(const struct rondo_limits *limits, const char *mailbox);

/* The same for all credits. */
bool mailbox_credits_are(const struct rondo_limits *limits, const char *mailbox, uint32_t credit);

/* All ranks call it when their streams are idle. 0: nothing is left in any rank's mailboxes. */
int mailboxes_check(struct rig *rig);

#endif
