/* What deserves the reader's attention, each with what to do about it. */
#ifndef RONDO_DOCTOR_FINDINGS_H
#define RONDO_DOCTOR_FINDINGS_H

enum { FINDINGS_MOST = 128 };

enum severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_FAULT };
const char *severity_name(enum severity severity);

struct finding {
    enum severity severity;
    char text[240], advice[240];
};

struct findings {
    struct finding list[FINDINGS_MOST];
    int count, left_out;
};

/* The same text is kept once. */
void findings_add(struct findings *findings, enum severity severity, const char *advice, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
