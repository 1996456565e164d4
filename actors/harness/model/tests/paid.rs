//! The client and the scripted model together: what is reserved always covers what is used.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use proptest::prelude::*;
use ronde_model::{
    CallPlace, Client, ErrorKind, Grant, Purse, Refusal, Want,
    scripted::{Error, Scripted},
    wire::{Block, Item, Request, StopReason, ToolResult},
};
use ronde_protocol::{Amount, CallId, MicroUsd, Usage, WorkerName, outcome::Limit};
use serde_json::{Value, json};

fn script(value: &Value) -> Result<Scripted, Error> {
    Scripted::parse(Path::new("s.json"), &value.to_string())
}

fn request(text: &str) -> Request {
    Request {
        model: "scripted/s.json".into(),
        system: "system words".into(),
        tools: vec![],
        items: vec![Item::User { text: text.into() }],
        max_output: 1000,
    }
}

/// A purse with so much in it that notes what it gave and took.
struct Notes {
    left: Mutex<Amount>,
    seen: Mutex<Vec<(Amount, Option<Usage>)>>,
}

#[async_trait::async_trait]
impl Purse for Notes {
    async fn reserve(&self, want: Want) -> Result<Grant, Refusal> {
        let left = *self.left.lock().expect("lock");
        let max_output = want.fit(left).ok_or(Refusal::Limit(Limit::Cost))?;
        let reserved = want.amount(max_output);
        self.seen.lock().expect("lock").push((reserved, None));
        Ok(Grant {
            max_output,
            reserved,
        })
    }

    async fn settle(&self, _call: &CallId, usage: Option<Usage>) {
        let mut seen = self.seen.lock().expect("lock");
        let (reserved, settled) = seen.last_mut().expect("reserved before");
        *settled = usage;
        let used = usage.map_or(*reserved, |usage| usage.amount());
        let mut left = self.left.lock().expect("lock");
        *left = left.minus(used);
    }
}

async fn call(
    client: &mut Client,
    request: &Request,
    n: u32,
) -> Result<ronde_model::Sent, Refusal> {
    let id = CallId::of(&"r".into(), 1, &WorkerName::main(), n, 1);
    let paid = client
        .reserve(request.clone(), id, CallPlace { attempt: 1, n })
        .await?;
    Ok(client.send(paid, std::future::pending()).await)
}

fn answers() -> impl Strategy<Value = Vec<Value>> {
    let usage = (0..900u64, 0..900u64, 0..900u64, 0..3000u64).prop_map(
        |(input, cached, cache_write, output)| {
            json!({ "input": input, "cached": cached, "cache_write": cache_write, "output": output })
        },
    );
    let answer =
        ("[a-zé]{1,60}", prop::option::of(usage), any::<bool>()).prop_map(|(text, usage, tool)| {
            let mut answer = json!({ "text": text });
            if let Some(usage) = usage {
                answer["usage"] = usage;
            }
            if tool {
                answer["tools"] = json!([{ "name": "t", "input": { "x": text } }]);
            }
            answer
        });
    let failure = prop::sample::select(vec!["retryable", "unknown"])
        .prop_map(|kind| json!({ "error": { "kind": kind, "message": "busy" } }));
    prop::collection::vec(prop_oneof![5 => answer, 1 => failure], 1..8)
}

proptest! {
    #[test]
    fn nothing_used_exceeds_what_was_reserved(
        answers in answers(),
        results in prop::collection::vec("[a-z\n]{0,300}", 8),
        left in (1000..40_000u64, 1..200_000u64),
    ) {
        let price = json!({ "input": 3_000_000, "cached": 300_000, "cache_write": 3_750_000, "output": 15_000_000 });
        let model = script(&json!({ "attempts": [answers], "price": price })).expect("a script");
        let limit = Amount { tokens: left.0, cost: MicroUsd(left.1) };
        let purse = Arc::new(Notes { left: Mutex::new(limit), seen: Mutex::default() });
        let mut client = Client::new(Arc::new(model), purse.clone());
        let mut request = request("do it");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut total = Amount::ZERO;
        for (n, text) in (1u32..).zip(&results).take(answers.len()) {
            let Ok(sent) = runtime.block_on(call(&mut client, &request, n)) else { break };
            total = total.plus(sent.usage.amount());
            match sent.result.expect("nobody stopped it") {
                Ok(response) => {
                    prop_assert_eq!(response.usage, sent.usage);
                    let asked = response.blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
                    request.items.push(Item::Assistant { blocks: response.blocks });
                    request.items.push(if asked {
                        let result = ToolResult { id: "x".into(), content: text.clone(), is_error: false };
                        Item::ToolResults { results: vec![result] }
                    } else {
                        Item::User { text: text.clone() }
                    });
                }
                Err(error) if error.kind == ErrorKind::Fatal => break,
                Err(_) => {}
            }
        }
        for (reserved, settled) in purse.seen.lock().expect("lock").iter() {
            let used = settled.map_or(*reserved, |usage| usage.amount());
            prop_assert!(used.tokens <= reserved.tokens && used.cost <= reserved.cost, "{used:?} of {reserved:?}");
        }
        prop_assert!(total.tokens <= limit.tokens && total.cost <= limit.cost);
    }
}

#[tokio::test]
async fn the_place_alone_decides_and_the_end_is_an_error() {
    let model = Arc::new(
        script(&json!({ "attempts": [
            [{ "text": "1.1", "tools": [{ "name": "t" }] }, { "text": "1.2" }],
            [{ "text": "2.1" }]
        ] }))
        .expect("a script"),
    );
    let purse = Arc::new(Notes {
        left: Mutex::new(Amount {
            tokens: u64::MAX,
            cost: MicroUsd(u64::MAX),
        }),
        seen: Mutex::default(),
    });
    let ask = async |attempt, n| {
        use ronde_model::Model as _;
        model.call(&request("x"), CallPlace { attempt, n }).await
    };
    let text = async |attempt, n| ask(attempt, n).await.map(|response| response.text());
    assert_eq!(text(1, 2).await.as_deref(), Ok("1.2"));
    assert_eq!(text(2, 1).await.as_deref(), Ok("2.1"));
    // The same place, asked again after a restart.
    assert_eq!(text(1, 2).await.as_deref(), Ok("1.2"));
    let first = ask(1, 1).await.expect("an answer");
    assert_eq!(first.stop, StopReason::ToolUse);
    assert!(
        matches!(&first.blocks[1], Block::ToolUse { id, input, .. } if id == "call_1_1_1" && *input == json!({}))
    );
    for (attempt, n, want) in [
        (
            1,
            3,
            "s.json: attempt 1, call 3: the script ends after call 2 of this attempt",
        ),
        (
            3,
            1,
            "s.json: attempt 3, call 1: the script ends after attempt 2",
        ),
        (
            0,
            1,
            "s.json: attempt 0, call 1: the script ends after attempt 2",
        ),
    ] {
        let error = ask(attempt, n).await.expect_err("past the end");
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::Fatal, want)
        );
    }
    // A reservation that is given back costs nothing.
    let client = Client::new(model, purse.clone());
    let place = CallPlace { attempt: 1, n: 1 };
    let paid = client
        .reserve(request("x"), "c".into(), place)
        .await
        .expect("paid");
    assert!(paid.reserved().tokens > 1000 && paid.request().max_output == 1000);
    client.release(paid).await;
    assert_eq!(
        purse.seen.lock().expect("lock")[0].1,
        Some(Usage::default())
    );
}

#[tokio::test]
async fn the_last_report_counts_only_for_the_same_beginning() {
    let answer = json!({ "text": "a", "usage": { "input": 10, "output": 1 } });
    let model = script(&json!({ "attempts": [[answer, answer, answer]] })).expect("a script");
    let limit = Amount {
        tokens: u64::MAX,
        cost: MicroUsd(u64::MAX),
    };
    let purse = Arc::new(Notes {
        left: Mutex::new(limit),
        seen: Mutex::default(),
    });
    let mut client = Client::new(Arc::new(model), purse.clone());
    let mut long = request(&"x".repeat(5000));
    call(&mut client, &long, 1).await.expect("paid");
    long.items.push(Item::User { text: "y".into() });
    call(&mut client, &long, 2).await.expect("paid");
    call(&mut client, &request(&"z".repeat(5000)), 3)
        .await
        .expect("paid");
    let seen = purse.seen.lock().expect("lock");
    let reserved: Vec<u64> = seen.iter().map(|(reserved, _)| reserved.tokens).collect();
    assert!(
        reserved[0] > 5000 && reserved[1] < 3000 && reserved[2] > 5000,
        "{reserved:?}"
    );
}

#[tokio::test]
async fn what_is_expected_is_looked_for_in_what_the_harness_said() {
    use ronde_model::Model as _;
    let model = script(&json!({ "attempts": [[
        { "text": "ok", "expect": { "prompt_contains": ["do", "it"], "prompt_lacks": "secret" } }
    ]] }))
    .expect("a script");
    let at = CallPlace { attempt: 1, n: 1 };
    assert!(model.call(&request("do it"), at).await.is_ok());
    let error = model
        .call(&request("do"), at)
        .await
        .expect_err("not all is there");
    assert!(error.message.contains(r#"to contain "it""#), "{error}");
    let error = model
        .call(&request("do it, secret"), at)
        .await
        .expect_err("too much is there");
    assert!(error.message.contains("not to contain"), "{error}");
    // What the model itself said does not count.
    let mut own = request("do");
    own.items.push(Item::Assistant {
        blocks: vec![Block::Text { text: "it".into() }],
    });
    assert!(model.call(&own, at).await.is_err());
}

#[tokio::test]
async fn it_holds_itself_to_what_a_real_model_can_do() {
    use ronde_model::Model as _;
    let model = script(&json!({ "attempts": [[
        { "text": "much", "tools": [{ "name": "t" }], "usage": { "input": 5, "output": 2000 } },
        { "text": "more", "usage": { "input": 5000, "output": 1 } }
    ]] }))
    .expect("a script");
    // More output than it may write: cut, and no tool call of it is left.
    let cut = model
        .call(&request("x"), CallPlace { attempt: 1, n: 1 })
        .await
        .expect("an answer");
    assert_eq!(
        (cut.stop, cut.usage.output, cut.blocks.len()),
        (StopReason::MaxTokens, 1000, 1)
    );
    // More input than there is.
    let error = model
        .call(&request("x"), CallPlace { attempt: 1, n: 2 })
        .await
        .expect_err("too much");
    assert!(error.message.contains("5000 input tokens"), "{error}");
}

#[test]
fn all_faults_of_a_script_at_once() {
    let error = script(&json!({
        "attempts": [
            [{ "text": 1 }, { "tools": [{ "name": "", "input": [] }] }, { "txt": "x" }, {}],
            [],
            3,
            [{ "error": { "kind": "bad", "message": "x" } }, { "error": { "kind": "fatal", "message": "x" }, "text": "y" }],
            [{ "text": "x", "expect": { "prompt_contains": 3 } }, { "text": "x", "usage": { "input": -1 } }],
            [{ "text": "x", "usage": { "cost": 1 } }, { "text": "x", "stop": "later" }]
        ],
        "price": { "input": 1 },
        "atempts": 1
    }))
    .expect_err("full of faults");
    let text = error.to_string();
    assert!(
        text.starts_with("the model script s.json is not valid:\n"),
        "{text}"
    );
    for part in [
        "attempts[0][0]: ",
        "attempts[0][1].tools[0].name: must not be empty",
        "attempts[0][1].tools[0].input: expected an object",
        "attempts[0][2]: unknown field `txt`",
        "attempts[0][3]: needs `text`, `tools` or `error`",
        "attempts[1]: must not be empty",
        "attempts[2]: expected a list of calls",
        "attempts[3][0]: unknown variant `bad`",
        "attempts[3][1]: `error` stands alone",
        "attempts[4][0]: expected a text or a list of texts",
        "attempts[4][1]: ",
        "attempts[5][0]: unknown field `cost`",
        "attempts[5][1]: unknown variant `later`",
        "price: missing field `output`",
        "atempts: unknown key",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    for (whole, part) in [
        ("", "EOF"),
        ("[]", "expected an object"),
        ("{}", "attempts: missing"),
        (r#"{"attempts":[]}"#, "must not be empty"),
        (r#"{"attempts":1}"#, "expected a list"),
    ] {
        let error = Scripted::parse(Path::new("s.json"), whole)
            .expect_err("no script")
            .to_string();
        assert!(error.contains(part), "{error}");
    }
    let missing = Scripted::load(Path::new("/nowhere/s.json"))
        .expect_err("no file")
        .to_string();
    assert!(
        missing.contains("cannot read the model script /nowhere/s.json"),
        "{missing}"
    );
}
