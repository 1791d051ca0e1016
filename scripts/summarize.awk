# Reads the log of `ctest -V`, one program at a time. Prints the full output of each program that failed, and a line
# "#count NAME PASSED FAILED" for each. A program's counts are those of Criterion's last line; one that ends without that
# line, or badly although the line knows of no failure (a time-out, a crash at exit), adds a failure.

function finish(name, outcome,    passed, failed, i) {
    passed = tested >= 0 ? passing : 0
    failed = tested >= 0 ? tested - passing : 0
    if (failed < failing)
        failed = failing
    if ((outcome != "Passed" || tested < 0) && failed == 0)
        failed = 1
    if (failed > 0) {
        print "---- " name ": " outcome (tested < 0 ? ", without Criterion's summary" : "")
        for (i = 0; i < lines; i++)
            print output[i]
    }
    print "#count", name, passed, failed
    reset()
}

function reset() {
    lines = 0
    tested = -1
    passing = failing = 0
}

function number_after(word,    text) {
    if (!match(plain, word ": *[0-9]+"))
        return 0
    text = substr(plain, RSTART, RLENGTH)
    sub(/.*: */, "", text)
    return text + 0
}

BEGIN { reset() }

/^ *[0-9]+: / || /^ *[0-9]+:$/ {
    line = $0
    sub(/^ *[0-9]+: ?/, "", line)
    output[lines++] = line
    plain = line
    gsub(/\033\[[0-9;]*m/, "", plain)
    if (plain ~ /Synthesis: *Tested:/) {
        tested = number_after("Tested")
        passing = number_after("Passing")
        failing = number_after("Failing")
    }
    next
}

/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
    name = $0
    sub(/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /, "", name)
    outcome = name
    sub(/ .*/, "", name)
    sub(/^[^ ]+ [.]* */, "", outcome)
    sub(/^[*]+/, "", outcome)
    sub(/ +[0-9.]+ sec.*$/, "", outcome)
    finish(name, outcome)
}
