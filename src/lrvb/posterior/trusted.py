"""How far an answer can be trusted: certificates, and the verdicts that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.response import Response
from ..errors import InvalidModel
from .answering import Certifies, Judges
from .certificate import Certificate
from .certification import ASK, Certifier, Checked
from .costs import DRAWS
from .named import Named
from .verdicts import NOT_CHECKED, REPAIRED
from .weighted import WeightedDraws

if TYPE_CHECKING:
    import pandas as pd

NOT_KEPT = "its certificate was not saved with it; fit it again, and certify"


class Trusted(Named):
    """The part of a posterior that knows what was checked."""

    checked: Checked
    weighted: WeightedDraws | None
    _certifier: Certifier | Judges | None
    _response: Response | None
    _origin: str

    if TYPE_CHECKING:  # of the posterior itself

        def _require_engine(self, what: str) -> Response: ...

    @property
    def certificate(self) -> Certificate | Certifies | None:
        """The certificate, where there is one."""
        return self.checked.certificate or self.checked.integrated

    @property
    def verdicts(self) -> pd.DataFrame:
        """`verdict` and `why` of every named quantity: the certificate's, or those known without draws."""
        import pandas as pd

        found = list(self.checked.quick)
        if self.certificate is not None:
            found = self.certificate.verdicts
        elif self.weighted is not None and self.weighted.verdicts:
            found = [(verdict, "") for verdict in self.weighted.verdicts]
        elif not found:
            found = [(NOT_CHECKED, f"Not checked: {self.checked.reason}.")] * len(self.names)
        return pd.DataFrame(found, index=pd.Index(self.names), columns=["verdict", "why"])

    def certify(
        self,
        draws: int = DRAWS,
        seed: int = 0,
        *,
        budget: float | None = None,
        passes: int | None = None,
        progress: bool = False,
    ) -> Certificate | Certifies:
        """Check every named quantity against draws of the exact posterior, and keep the result.

        Importance sampling of the density with all rows' variables integrated out, from linear
        response's normal; where its weights are poor, HMC. Fits from other starts look for other
        modes. No round is begun that would not end within `budget` seconds or `passes` over all rows (a
        gradient counts three, a fit from another start sixty, in a hundred coordinates and more about
        their number); what is then not known is "doubtful". A variational mixed model is integrated.
        Afterwards `certificate` is set and `summary` has its verdicts. An answer that was checked when it was
        made (an integrated mixed model, a model by its log density) has its certificate already: this is it.
        """
        known = self.checked.certificate
        from_the_start = self.checked.integrated or (known if known and known.polish else None)
        if self._certifier is None and from_the_start is not None:
            if (draws, seed) == (DRAWS, 0):
                return from_the_start
            raise InvalidModel(
                "This posterior was checked when it was made, and `certificate` has the result; for other "
                "draws infer again, from the model."
            )
        if self._certifier is None and self._response is None and self.checked.reason:
            raise InvalidModel(
                f"This posterior was {self._origin} and cannot be checked any more: "
                f"{self.checked.reason}."
            )
        if self._certifier is None:
            self._require_engine("density to check it against")
            raise InvalidModel(
                "This posterior's density with all local variables integrated out is not known here, "
                "so that it cannot be certified; it can for lrvb.infer and GaussianMixture, and a "
                'MixedModel with factorization="blocked" has verdicts by itself.'
            )
        found: Certificate | Certifies = self._certifier.certify(
            draws, seed, budget=budget, passes=passes, progress=progress
        )
        if isinstance(found, Certificate):
            self.checked = Checked(certificate=found)
        else:
            self.checked = Checked(integrated=found, reason=NOT_KEPT)
        return found

    def settle(self, certify: str | bool, *, progress: bool = False) -> None:
        """Certify or not, as `certify` says: True, False, or "auto" where it costs little.

        "auto" makes a thousand draws where that is about a second or three fits, some hundred beyond; where
        nothing can be drawn it gives verdicts without draws, if they cost less than the fit.
        """
        if certify is True:
            self.certify(progress=progress)
        elif certify == "auto" and isinstance(self._certifier, Certifier):
            self.checked = self._certifier.automatic(progress=progress)
        elif certify is False:
            self.checked = Checked(reason=f"certify=False was given; {ASK}")

    def _note(self, verdicts: list[str]) -> str:
        """The line under the summary: where verdicts come from, or why there are none."""
        notes = []
        if REPAIRED in verdicts:
            notes.append('Rows marked "repaired" show the certified numbers.')
        checked = self.checked.certificate
        if checked is not None and checked.heavy.any():
            notes.append(
                "Rows without an sd have heavy tails: use lower and upper, their quantiles."
            )
        if notes:
            return " ".join(notes)
        if self.certificate is None and self.checked.quick:
            return "Verdicts by the size of the second order, without draws; posterior.certify() draws."
        return self.verdicts["why"].iloc[0] if NOT_CHECKED in verdicts else ""

    def _certified(self) -> Certificate | Certifies:
        if self.certificate is None:
            raise InvalidModel(
                'This posterior has no certificate, which method="certified" needs; call '
                "posterior.certify() first."
            )
        return self.certificate
