#!/usr/bin/env bash
# What a person reads of the strategies: the list with each one's place, options and systems; the systems by name;
# and the one sentence that refuses what cannot be, before a node is started.
docs=$(cd "$(dirname "$0")/../../docs" && pwd)
. "$(dirname "$0")/lib.sh"
write_run 1

# ---- the list ----
run 0 list strategies
awk 'length > 100 { print "long line: " $0; bad = 1 } END { exit bad }' out >&2 || fail "the list is wider than 100 columns"
names='sgd ring ring-one ring-flow ring-stream allreduce-auto allreduce-ring allreduce-rd allreduce-hd allreduce-tree
ps-sync ps-tree ps-scatter ps-hier ps-peer ps-shard ps-async ps-ssp ps-vap ps-backup ps-cut downpour hybrid'
for name in $names; do
    grep -qE "^$name: ." out || fail "list strategies: no $name"
    awk -v name="$name:" '$1 == name { on = 1; next } on && /^[^ ]/ { exit } on' out >place
    for word in parallelism optimization scheduling exchange topology; do
        grep -q "$word: ." place || fail "list strategies: $name has no $word"
    done
done
[ "$(grep -cE '^[^ ]' out)" -eq "$(echo "$names" | wc -w)" ] || fail "the list has other strategies than the test knows"
says out "systems, as:NAME: baidu, horovod, nccl, pytorch"
says out "petuum (base=ssp; without "
for name in $names; do grep -q "\`$name\`" "$docs/strategies.md" || fail "docs/strategies.md does not name $name"; done
for name in $(grep -o 'as:[a-z0-9-]*' "$docs/strategies.md" | cut -d: -f2 | sort -u); do
    grep -qw -- "$name" out || fail "docs/strategies.md has as:$name, and the list has not"
done
grep -qE '^      s +ssp: .*\(default 3\)$' out || fail "ps-ssp: no line for s with its default"
grep -qE '^      wfbp +.*\(off, on; default on\)$' out || fail "no line for wfbp with its default"
grep -qE '^      n_push +.*\(default 1\)$' out || fail "no line for n_push with its default"
[ "$(grep -cE '^      damp +.*\(default auto\)$' out)" -eq 8 ] || fail "not 8 strategies with damp=auto"

awk '$1 == "hybrid:" { on = 1; next } on' out >place
grep -qE '^      rings +.*\(default auto\)$' place || fail "hybrid: no line for rings with its default"
says place "default allreduce-rd)"
says place "      and the options of that exchange, but for dedicated, order, shares and bucket"

# ---- names ----
refuses 2 "cluster.strategy: there is no 'ps-snyc'; did you mean 'ps-sync'?" train run.yaml --nodes 2 --strategy ps-snyc --out never
refuses 2 "there is no 'allreduce'; did you mean 'allreduce-" train run.yaml --nodes 2 --strategy allreduce --out never
refuses 2 "there is no 'frobnicate'; there are sgd, ring" train run.yaml --nodes 2 --strategy frobnicate --out never
says err downpour
refuses 2 "there is no 'horovod'; to train as that system did, write 'as:horovod'" train run.yaml --strategy horovod --out never
refuses 2 "there is no system 'horovodd'; did you mean 'as:horovod'?" train run.yaml --strategy as:horovodd --out never
refuses 2 "there is no system 'Petuun'; did you mean 'as:petuum'?" train run.yaml --strategy as:Petuun --out never
refuses 2 "there is no system 'ps-sync'; did you mean the strategy 'ps-sync'?" train run.yaml --strategy as:ps-sync --out never
refuses 2 "there is no system 'downpur'; did you mean the strategy 'downpour'?" train run.yaml --strategy as:downpur --out never
refuses 2 "there is no system 'xyzzy'; there are " train run.yaml --strategy as:xyzzy --out never
says err "distbelief, firecaffe"

# ---- options ----
refuses 2 "unknown key 'staleness' in ps-async; the keys are dedicated, prio" train run.yaml --strategy ps-async,staleness=3 --out never
refuses 2 "'k' is not of the form option=value" train run.yaml --strategy ps-shard,k --out never
refuses 2 "ps-ssp: s must be at least 0 or 'inf', not '-1'" train run.yaml --nodes 2 --strategy ps-ssp,s=-1 --out never
refuses 2 "quorum must be between 0 and 1, not '1.1'" train run.yaml --nodes 2 --strategy ps-backup,quorum=1.1 --out never
refuses 2 "ps-backup: quorum: must be above 0" train run.yaml --nodes 2 --strategy ps-backup,quorum=0 --out never
refuses 2 "ps-cut: cut: must be above 0" train run.yaml --nodes 2 --strategy ps-cut,cut=0 --out never
refuses 2 "wfbp must be one of off, on, not 'true'" train run.yaml --nodes 2 --strategy ps-sync,wfbp=true --out never
refuses 2 "group must be" train run.yaml --nodes 2 --strategy ps-hier,group=0 --out never
refuses 2 "key 's' is given twice" train run.yaml --nodes 2 --strategy ps-ssp,s=1,s=2 --out never
printf 'cluster:\n  nodes: 2\n  strategy: {ps-shard: {k: 3}}\n' | cat run.yaml - >changed.yaml
refuses 2 "changed.yaml:19: ps-shard: k: 3 servers cannot be on 2 nodes" train changed.yaml --out never
printf 'cluster:\n  nodes: 2\n  strategy: {as:parameter-server: {s: -2}}\n' | cat run.yaml - >changed.yaml
refuses 2 "ps-shard: s must be at least 0" train changed.yaml --out never

# ---- combinations ----
refuses 2 "hybrid: rings: 5 nodes cannot be 2 rings of equal length" train run.yaml --nodes 5 --strategy hybrid,rings=2 --out never
refuses 2 "hybrid: exchange must be one of allreduce-auto, " train run.yaml --nodes 4 --strategy hybrid,exchange=ring --out never
says err "ps-cut, downpour, not 'ring'"
refuses 2 "did you mean 'ps-sync'?" train run.yaml --nodes 4 --strategy hybrid,exchange=ps-snyc --out never
refuses 2 "hybrid: k: exchange=allreduce-rd has no such option" train run.yaml --nodes 4 --strategy hybrid,k=2 --out never
refuses 2 "hybrid: s: exchange=allreduce-rd has no such option" train run.yaml --nodes 4 --strategy hybrid,s=1 --out never
refuses 2 "hybrid: k: 3 servers cannot be on 2 rings" train run.yaml --nodes 4 --strategy hybrid,exchange=ps-shard,k=3 --out never
refuses 2 "in hybrid,exchange=ps-ssp; did you mean 'damp'?" train run.yaml --nodes 4 --strategy hybrid,exchange=ps-ssp,dump=2 --out never
refuses 2 "hybrid,exchange=ps-ssp: s must be at least 0 or 'inf', not '-1'" train run.yaml --nodes 4 --strategy hybrid,exchange=ps-ssp,s=-1 --out never
refuses 2 "hybrid: dedicated: is not for rings, each of whose nodes has layers and works" train run.yaml --nodes 4 --strategy hybrid,exchange=ps-async,dedicated=true --out never
refuses 2 "hybrid: order: is not for rings, which exchange a layer whenever its gradient is there" train run.yaml --nodes 4 --strategy hybrid,order=down --out never
refuses 2 "hybrid: bucket: is not for rings, which exchange each layer by itself" train run.yaml --nodes 4 --strategy hybrid,bucket=64 --out never
refuses 2 "hybrid: train.clip_norm: not with exchange=ps-async between rings: every place has a server of its own" train run.yaml --nodes 4 --strategy hybrid,exchange=ps-async --set train.clip_norm=1 --out never
refuses 2 "hybrid: cluster.master_tail: not with exchange=downpour between rings: the first layers of a ring's leader and its last would need a server each" train run.yaml --nodes 4 --strategy hybrid,exchange=downpour --set cluster.master_tail=1 --out never
refuses 2 "2 rings of 32 nodes each are too long for this model" train run.yaml --nodes 64 --strategy hybrid --out never
# An option that nobody would read is refused, not ignored.
for option in s=0 step=clock prio=stale damp=2 dc=0.1; do
    refuses 2 "ps-shard: ${option%=*}: is for base=" train run.yaml --nodes 2 --strategy "ps-shard,$option" --out never
    refuses 2 "ps-cut: ${option%=*}: is for base=" train run.yaml --nodes 2 --strategy "ps-cut,$option" --out never
    refuses 2 "ps-hier: ${option%=*}: is for base=" train run.yaml --nodes 2 --strategy "ps-hier,$option" --out never
done
for option in s=0 step=clock order=down reduce=sum; do
    refuses 2 "ps-shard: ${option%=*}: is for base=" train run.yaml --nodes 2 --strategy "ps-shard,base=async,$option" --out never
done
for option in order=down reduce=sum; do
    refuses 2 "ps-hier: ${option%=*}: is for base=sync" train run.yaml --nodes 2 --strategy "ps-hier,base=ssp,$option" --out never
done
refuses 2 "ps-hier: depth: with base=async there are the proxies and the server, which is a depth of 2, not 3" train run.yaml --nodes 4 --strategy ps-hier,base=async,depth=3 --out never
refuses 2 "ps-hier: a batch of 3 cannot be shared by 4 workers" train run.yaml --nodes 5 --strategy ps-hier,base=async,group=4 --set train.batch=3 --out never
refuses 2 "hybrid: base: with exchange=ps-hier groups of rings have no pace of their own; for rings that have take exchange=ps-ssp" train run.yaml --nodes 4 --strategy hybrid,exchange=ps-hier,base=ssp --out never
refuses 2 "ps-vap: factor: does nothing where delta is given" train run.yaml --nodes 2 --strategy ps-vap,delta=0.1,factor=3 --out never
refuses 2 "hybrid: a batch of 3 cannot be shared by 4 rings" train run.yaml --nodes 4 --strategy hybrid,rings=4 --set train.batch=3 --out never
refuses 2 "k: 5 servers cannot be on 4 nodes" train run.yaml --nodes 4 --strategy ps-shard,k=5 --out never
refuses 2 "dedicated: 1 server" train run.yaml --nodes 1 --strategy ps-async,dedicated=true --out never
refuses 2 "dedicated: 4 servers" train run.yaml --nodes 4 --strategy ps-shard,k=4,dedicated=true --out never
refuses 2 "ps-sync: a batch of 3 cannot be shared by 4 workers" train run.yaml --nodes 4 --strategy ps-sync --set train.batch=3 --out never
refuses 2 "allreduce-ring: a batch of 2 cannot be shared by 3 workers" train run.yaml --nodes 3 --strategy as:horovod --set train.batch=2 --out never
refuses 2 "ps-peer cannot clip" train run.yaml --nodes 2 --strategy ps-peer --set train.clip_norm=1 --out never
refuses 2 "cluster.master_tail is for rings" train run.yaml --nodes 2 --strategy ps-sync --set cluster.master_tail=1 --out never
refuses 2 "cluster.plan is for rings" train run.yaml --nodes 2 --strategy ps-sync --set cluster.plan=even --out never
refuses 2 "data.send is for strategies" train run.yaml --nodes 2 --strategy ring --set data.send=true --out never
refuses 2 "sgd trains on 1 node, not on 2" train run.yaml --nodes 2 --strategy sgd --out never
refuses 2 "k: 400 servers cannot be on 300 nodes" train run.yaml --nodes 300 --strategy ps-shard,k=400 --out never
printf 'x,y\n1,2\n2,4\n3,6\n4,8\n' >line.csv
cat >line.yaml <<END
model: {input: 1, layers: [{dense: 1}], loss: mse}
data: {train: {csv: {file: line.csv, label: y}}}
train: {epochs: 1, batch: 4}
END
refuses 2 "ps-shard: k: 3 servers cannot share 2 parameters" train line.yaml --nodes 3 --strategy ps-shard,k=3 --out never
[ ! -e never ] || fail "a run that was refused has made its directory"
run 0 train line.yaml --nodes 3 --strategy ps-shard --out few # 2 servers for 2 parameters
says out " 1  local 1                  server+worker"
says out " 2  local 2                  worker"
run 0 train line.yaml --nodes 3 --strategy ps-shard,base=async --out few-async
says out "staleness      "

# ---- one node is a cluster too: every strategy is then the single device ----
# the last batch of an epoch has fewer rows than there are shards
of_result() { field params_sha256 "$1/summary.json"; }
set_up=(--quiet --set train.batch=16 --set train.shards=8 --set train.epochs=2)
run 0 train run.yaml "${set_up[@]}" --strategy sgd --out alone
for name in $names; do
    case $name in
        sgd | ring-one | ring-flow | ring-stream) continue ;;
        ps-cut) strategy=ps-cut,cut=1 ;;
        *) strategy=$name ;;
    esac
    run 0 train run.yaml "${set_up[@]}" --strategy "$strategy" --out "one-$name"
    [ "$(of_result "one-$name")" = "$(of_result alone)" ] || fail "$strategy on one node is not sgd"
done

run 0 train run.yaml --quiet --set train.batch=1 --strategy sgd --out singly
run 0 train run.yaml --quiet --strategy ring-one --out one-ring-one
[ "$(of_result one-ring-one)" = "$(of_result singly)" ] || fail "ring-one on one node is not sgd with a batch of 1"
run 0 train run.yaml --quiet --set train.batch=16 --strategy sgd --out plain
run 0 train run.yaml --quiet --set train.batch=16 --strategy ring-flow --out flow
[ "$(of_result flow)" = "$(of_result plain)" ] || fail "ring-flow on one node is not sgd"

# ---- the summary keeps every option, as it was used and as it can be given again ----
options_of() { sed -n 's/.*"strategy_options": "\(.*\)".*/\1/p' "$1/summary.json"; }
[ -z "$(options_of alone)" ] || fail "sgd has options: $(options_of alone)"
for name in $names; do
    [ -d "one-$name" ] && [ "$name" != ring-one ] || continue
    run 0 train run.yaml "${set_up[@]}" --strategy "$name,$(options_of "one-$name")" --out "again-$name"
    [ "$(field strategy "again-$name/summary.json"),$(options_of "again-$name")" = "$name,$(options_of "one-$name")" ] ||
        fail "$name: given '$(options_of "one-$name")', used '$(options_of "again-$name")'"
    [ "$(of_result "again-$name")" = "$(of_result alone)" ] || fail "$name: its options give another result"
done
run 0 train run.yaml --nodes 2 --strategy as:Parameter_Server,k=1,s=1,dc=0.1 --out system
says err "as:parameter-server trains as ps-shard,k=1,s=1,dc=0.1,base=ssp does; it leaves out: replicas of servers, filters"
case $(options_of system) in k=1,base=ssp,*,s=1,*,damp=2,dc=0.1,*) ;; *) fail "as:parameter-server: $(options_of system)" ;; esac
[ "$(field strategy system/summary.json)" = ps-shard ] || fail "summary: strategy is $(field strategy system/summary.json)"
[ "$(field system system/summary.json)" = parameter-server ] || fail "summary: no system"
says system/summary.json '"system_without": "replicas of servers, filters"'
grep -q '"event": *"start".*"strategy_options": *"k=1,base=ssp' system/journal.jsonl || fail "journal: no options"
grep -q '"event": *"notice".*it leaves out: replicas' system/journal.jsonl || fail "journal: nothing about the system"
run 0 plan run.yaml --nodes 2 --strategy as:ringtmp
says err "as:ringtmp trains as ring does"

# ---- numbers that grow without bound: where gradients are stale, that is said, with what may help ----
too_fast='train.optimizer={momentum: {lr: 1e30}}'
diverges() { # SENTENCE STRATEGY
    run 1 train run.yaml --quiet --nodes 2 --strategy "$2" --set "$too_fast" --out "fast-$2"
    says err "not finite"
    says err "$1"
}
diverges "; ps-async learns from stale gradients: damp=3 instead of 2, a lower learning rate or train.clip_norm may help" ps-async
diverges "; ps-ssp learns from stale gradients: damp=2 instead of 0, a lower" ps-ssp,damp=0
diverges "; downpour learns from stale gradients: damp=3 instead of 2 or a lower learning rate may help" downpour
diverges "; ring-flow learns from stale gradients: damp=3 instead of 2 or a lower learning rate may help" ring-flow
diverges "; a lower learning rate or train.clip_norm may help" ps-sync
diverges "; a lower learning rate may help" ps-peer
run 1 train run.yaml --quiet --nodes 1 --strategy ps-async --set "$too_fast" --out fast-alone
says err "; a lower learning rate or train.clip_norm may help"

# ---- an epoch that is cut short, by servers that bound the delay ----
for options in s=0 s=1,step=clock; do
    run 0 train run.yaml "${set_up[@]}" --nodes 3 --strategy "ps-cut,base=ssp,cut=0.3,$options" --out "cut-$options"
    [ "$(field updates "cut-$options/summary.json")" -eq 8 ] || fail "ps-cut,$options: $(field updates "cut-$options/summary.json") updates, not 8"
done

finish
