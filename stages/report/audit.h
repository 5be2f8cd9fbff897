/* audit.h - the audits of a report's runs: read from their records, judged, and told. */
#ifndef REMATCH_STAGES_REPORT_AUDIT_H
#define REMATCH_STAGES_REPORT_AUDIT_H

#include "stages/audit_set.h"
#include "stages/report/document.h"
#include "stages/report/report.h"

struct run_audits {
    struct audit_set set[AUDIT_KINDS];
};

/* Fills run->audits where the run's point takes audits, once its point is there. */
status audit_load(struct run *run, struct record *record);
void audit_unload(struct run_audits *audits); /* NULL-safe */

void audit_findings(struct document *d, const struct report *r);
void audit_section(struct document *d, const struct report *r); /* nothing without audits */
json_t *audit_json(const struct run *run);                      /* NULL: no memory */

#endif
