/* Runs the mechanisms of all pairs: two children for a pair, and others for the mechanisms that are left if one of the two
 * crashes or takes too long. */
#include "doctor.h"
#include "mechanism.h"

#include "common/clock.h"
#include "common/result.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILL_PATIENCE_MS = 5000 };

/* Shared with the children. */
struct board {
    struct result results[MECHANISMS_MOST][2];
    char text[2][WHY_BYTES]; /* why a child could not begin */
};

const char *outcome_name(enum outcome_kind kind)
{
    static const char *const names[] = {"works", "unavailable", "BROKEN", "INCONCLUSIVE"};
    return names[kind];
}

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {"OK", "BROKEN", "INCONCLUSIVE"};
    return names[verdict];
}

static uint64_t wait_limit_ns(const struct doctor *doctor)
{
    return (doctor->options.quick ? 2 : 4) * 1000000000ull;
}

/* ---- a child ---- */

static struct probe probe_of(const struct doctor *doctor, const struct pair *pair, int role, int socket)
{
    const bool host = !strcmp(doctor->seen->row, "host"), quick = doctor->options.quick;
    const size_t mib = quick ? 2 : host ? 4 : 32;
    return (struct probe){
        .role = role,
        .devices = {pair->a, pair->b},
        .access = doctor->seen->peers[pair->a][pair->b].access,
        .socket = socket,
        .bytes = mib << 20,
        .repeats = quick ? 2 : 8,
        .rounds = quick || host ? 200 : 5000,
        .limit_ns = wait_limit_ns(doctor),
    };
}

static void run_child(const struct doctor *doctor, const struct pair *pair, int role, int socket, int first,
                      struct board *board)
{
    struct probe probe = probe_of(doctor, pair, role, socket);
    if (rondo_device_row(&probe.ops) != rondoSuccess ||
        probe.ops->open(probe.devices[role], &probe.device) != rondoSuccess) {
        snprintf(board->text[role], sizeof board->text[role], "%s", rondo_last_error());
        _exit(1);
    }
    for (int m = first; m < mechanism_count; m++) {
        struct result *result = &board->results[m][role];
        __atomic_store_n(&result->state, RESULT_RUNNING, __ATOMIC_RELEASE);
        if (mechanisms[m].p2p && !probe.access)
            snprintf(result->why, sizeof result->why, "the driver gives no peer access");
        else
            mechanisms[m].probe(&probe, result);
        __atomic_store_n(&result->state, RESULT_DONE, __ATOMIC_RELEASE);
        if (result->lost)
            _exit(2); /* out of step with the other */
    }
    _exit(0);
}

/* ---- the parent's side ---- */

struct couple {
    pid_t pids[2]; /* 0: gone */
    int ends[2];   /* exit status of waitpid */
};

static bool start_couple(const struct doctor *doctor, const struct pair *pair, int first, struct board *board,
                         struct couple *couple)
{
    int sockets[2];
    memset(couple, 0, sizeof *couple);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return false;
    fflush(NULL);
    for (int role = 0; role < 2; role++) {
        couple->pids[role] = fork();
        if (couple->pids[role] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(sockets[1 - role]);
            run_child(doctor, pair, role, sockets[role], first, board);
        }
        if (couple->pids[role] < 0)
            couple->pids[role] = 0;
    }
    close(sockets[0]);
    close(sockets[1]);
    return couple->pids[0] && couple->pids[1];
}

static void reap(struct couple *couple)
{
    for (int role = 0; role < 2; role++)
        if (couple->pids[role] && waitpid(couple->pids[role], &couple->ends[role], WNOHANG) == couple->pids[role])
            couple->pids[role] = 0;
}

static void kill_couple(struct couple *couple)
{
    for (int role = 0; role < 2; role++)
        if (couple->pids[role])
            kill(couple->pids[role], SIGKILL);
    /* A process whose kernel hangs may take long to die, or for ever: it is left to init then. */
    for (int i = 0; i < KILL_PATIENCE_MS && (couple->pids[0] || couple->pids[1]); i++) {
        reap(couple);
        rondo_sleep_ns(1000000);
    }
}

/* The first mechanism that is not done on both sides, from `first` on. */
static int undone(const struct board *board, int first)
{
    int m = first;
    while (m < mechanism_count && __atomic_load_n(&board->results[m][0].state, __ATOMIC_ACQUIRE) == RESULT_DONE &&
           __atomic_load_n(&board->results[m][1].state, __ATOMIC_ACQUIRE) == RESULT_DONE)
        m++;
    return m;
}

/* One of the two ended as it should not. The other finds out on its own most often, and says less about it. */
static const char *explain_end(struct board *board, int at, struct couple *couple, char *text, size_t room)
{
    enum { PATIENCE_MS = 100 };
    for (int i = 0; i < PATIENCE_MS && (couple->pids[0] || couple->pids[1]); i++) {
        reap(couple);
        rondo_sleep_ns(1000000);
    }
    kill_couple(couple);
    snprintf(text, room, "the devices' processes fell out of step");
    for (int role = 0; role < 2; role++) {
        const int end = couple->ends[role];
        if (board->text[role][0])
            snprintf(text, room, "%s", board->text[role]);
        if (!WIFSIGNALED(end) || WTERMSIG(end) == SIGKILL)
            continue;
        snprintf(text, room, "the process of the %s device died: %s", role ? "second" : "first",
                 strsignal(WTERMSIG(end)));
        for (int r = 0; r < 2 && at < mechanism_count; r++)
            snprintf(board->results[at][r].why, sizeof board->results[at][r].why, "%s", text);
    }
    return text;
}

/* Waits for both. NULL: they ended as they should; else why not, and both are gone. */
static const char *await_couple(const struct doctor *doctor, struct board *board, int first, struct couple *couple,
                                char *text, size_t room)
{
    const uint64_t each_ns =
        10 * wait_limit_ns(doctor) + 10000000000ull; /* for one mechanism; contexts take their time */
    uint64_t since = rondo_now_ns();
    int at = first;
    while (couple->pids[0] || couple->pids[1]) {
        reap(couple);
        for (int role = 0; role < 2; role++)
            if (!couple->pids[role] && couple->ends[role] != 0)
                return explain_end(board, undone(board, first), couple, text, room);
        const int now_at = undone(board, first);
        const uint64_t now = rondo_now_ns();
        since = now_at != at ? now : since;
        at = now_at;
        if (now > doctor->deadline_ns || now - since > each_ns) {
            kill_couple(couple);
            return now > doctor->deadline_ns ? "the run's time was over" : "it took too long";
        }
        rondo_sleep_ns(1000000);
    }
    return NULL;
}

static void conclude(const struct result results[2], const char *lost, struct outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    bool maps = true, wrong = false, uncertain = lost != NULL;
    outcome->copies = outcome->kernels = true;
    for (int role = 0; role < 2; role++) {
        const struct result *result = &results[role];
        if (result->idle)
            continue;
        maps &= result->maps;
        wrong |= result->wrong;
        uncertain |= result->lost;
        outcome->copies &= result->copies;
        outcome->kernels &= result->kernels;
        for (int r = 0; r < 2; r++) {
            outcome->write_gbs[r] += result->write_gbs[r];
            outcome->read_gbs[r] += result->read_gbs[r];
        }
        outcome->latency_us += result->latency_us;
        if (result->why[0] && (!outcome->why[0] || result->wrong))
            snprintf(outcome->why, sizeof outcome->why, "%s", result->why);
    }
    outcome->kind = wrong                                 ? OUTCOME_BROKEN
                    : uncertain                           ? OUTCOME_INCONCLUSIVE
                    : !maps                               ? OUTCOME_UNAVAILABLE
                    : outcome->copies && outcome->kernels ? OUTCOME_WORKS
                                                          : OUTCOME_INCONCLUSIVE;
    if (lost && !wrong && !outcome->why[0])
        snprintf(outcome->why, sizeof outcome->why, "%s", lost);
}

static void judge_pair(const struct doctor *doctor, struct pair *pair)
{
    bool broken = false, uncertain = false, any = false, any_p2p = false, access;
    access = doctor->seen->peers[pair->a][pair->b].access;
    for (int m = 0; m < mechanism_count; m++) {
        const enum outcome_kind kind = pair->outcomes[m].kind;
        broken |= kind == OUTCOME_BROKEN;
        uncertain |= kind == OUTCOME_INCONCLUSIVE;
        any |= kind == OUTCOME_WORKS;
        any_p2p |= kind == OUTCOME_WORKS && mechanisms[m].p2p;
    }
    /* Peer access that the driver promises and no mechanism has is as broken as one that does not work. */
    broken |= access && !any_p2p && !uncertain;
    pair->verdict = broken ? VERDICT_BROKEN : uncertain || !any ? VERDICT_INCONCLUSIVE : VERDICT_OK;
}

static bool touched(const struct board *board, int m)
{
    return m < mechanism_count && (__atomic_load_n(&board->results[m][0].state, __ATOMIC_ACQUIRE) != RESULT_NONE ||
                                   __atomic_load_n(&board->results[m][1].state, __ATOMIC_ACQUIRE) != RESULT_NONE);
}

static void probe_pair(const struct doctor *doctor, struct pair *pair, struct board *board)
{
    char text[WHY_BYTES];
    memset(board, 0, sizeof *board);
    for (int m = 0; m < mechanism_count;) {
        const char *lost = "the run's time was over";
        struct couple couple;
        int end = m;
        if (rondo_now_ns() < doctor->deadline_ns) {
            memset(board->text, 0, sizeof board->text);
            if (!start_couple(doctor, pair, m, board, &couple)) {
                kill_couple(&couple);
                lost = "no processes could be started";
            } else {
                lost = await_couple(doctor, board, m, &couple, text, sizeof text);
            }
            end = lost ? undone(board, m) : mechanism_count;
        }
        const bool begun = end == m || touched(board, end);
        for (; m < end; m++)
            conclude(board->results[m], NULL, &pair->outcomes[m]);
        if (!lost || m == mechanism_count || !begun)
            continue; /* the next couple goes on from here */
        conclude(board->results[m], lost, &pair->outcomes[m]);
        m++;
    }
    judge_pair(doctor, pair);
}

/* Pairs of one round have no device in common; a round-robin tournament. */
static int round_of(int a, int b, int devices)
{
    const int turns = devices % 2 ? devices : devices - 1; /* the last of an even number stays, the others go round */
    return (b == turns ? 2 * a : a + b) % turns;
}

/* A process that looks after one pair, while others look after theirs. */
static pid_t start_keeper(const struct doctor *doctor, struct pair *pair)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board != MAP_FAILED)
        probe_pair(doctor, pair, board);
    _exit(0);
}

/* Keepers end on their own, soon after the run's deadline at the latest. */
static void probe_round(struct doctor *doctor, int round)
{
    pid_t keepers[DOCTOR_DEVICES];
    int count = 0;
    for (int i = 0; i < doctor->pair_count; i++) {
        struct pair *pair = &doctor->pairs[i];
        if (round < 0 ? i != ~round : round_of(pair->a, pair->b, doctor->seen->count) != round)
            continue;
        const pid_t keeper = start_keeper(doctor, pair);
        if (keeper > 0)
            keepers[count++] = keeper;
    }
    for (int k = 0; k < count; k++)
        waitpid(keepers[k], NULL, 0);
}

void pairs_probe(struct doctor *doctor)
{
    struct rondo_p2p_rules rules;
    const int devices = doctor->seen->count;
    rondo_p2p_rules_read(doctor->topology, devices, &rules);
    for (int a = 0; a < devices; a++) {
        for (int b = a + 1; b < devices; b++) {
            struct pair *pair = &doctor->pairs[doctor->pair_count++];
            pair->a = a;
            pair->b = b;
            pair->verdict = VERDICT_INCONCLUSIVE; /* unless its keeper says otherwise */
            for (int m = 0; m < mechanism_count; m++)
                pair->outcomes[m].kind = OUTCOME_INCONCLUSIVE;
            if (doctor->places[a] >= 0 && doctor->places[b] >= 0)
                rondo_p2p_judge(&rules, doctor->topology, doctor->places[a], doctor->places[b],
                                &doctor->seen->peers[a][b], &pair->p2p);
        }
    }
    /* One pair at a time, so that what is measured is its own; a quick run has no time for that. */
    const int rounds = doctor->options.quick ? devices + devices % 2 - 1 : doctor->pair_count;
    for (int round = 0; round < rounds && doctor->pair_count; round++)
        probe_round(doctor, doctor->options.quick ? round : ~round);
}
