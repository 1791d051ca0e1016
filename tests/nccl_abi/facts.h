/* Layouts and numbers of NCCL's interface, as a header has them. */
#ifndef RONDO_TESTS_NCCL_FACTS_H
#define RONDO_TESTS_NCCL_FACTS_H

struct nccl_fact {
    const char *name;
    long long value;
};

/* Ends with a name of NULL. */
extern const struct nccl_fact nccl_facts_ours[];
/* NULL where NCCL's header was not found when this was built. */
extern const struct nccl_fact nccl_facts_theirs[] __attribute__((weak));

#endif
