"""An alert for each card that spent, in this partition, far above what payments average everywhere in that window."""

import msgspec

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, WLocal, on_window
from wcrdt import Average, GCounter, MapOf

FIVE_MINUTES = Tumbling.of(minutes=5)


class Payment(msgspec.Struct):
    ts: int
    card: str
    cents: int


class Usual(ProcessingFunction[Payment]):
    """The average payment over all partitions: a function of its own, nested below."""

    cents = WCRDT(Average(), FIVE_MINUTES)

    def process(self, payment: Payment, ctx: Context) -> None:
        self.cents.insert(payment.cents, payment.ts)


class FraudAlert(ProcessingFunction[Payment]):
    """``factor`` is a constant of the job; everything that changes is declared state."""

    spent_here = WLocal(MapOf[str, int, int](GCounter()), FIVE_MINUTES)
    usual = Usual()

    def __init__(self, factor: int = 10) -> None:
        self.factor = factor

    def process(self, payment: Payment, ctx: Context) -> None:
        self.usual.process(payment, ctx)
        self.spent_here.insert((payment.card, payment.cents), payment.ts)

    @on_window(spent_here)
    async def check(self, window: Window, ctx: Context) -> None:
        usual = await self.usual.cents.window_value(window)
        assert usual is not None, "this partition has a payment in the window, so there is an average"
        for card, spent in (await self.spent_here.window_value(window)).items():
            if spent > self.factor * usual:
                ctx.emit({"card": card, "window": window.start_ms, "spent": spent})


job = Job(
    "fraud-alert",
    Source("payments", Json(Payment), timestamp=lambda payment: payment.ts),
    FraudAlert(factor=10),
    output="alerts",
    allowed_lateness_ms=60_000,
)
